"""Parameters of a model as a tree of modules, for models of a hundred thousand tensors. No Qt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from torchdeck.contract.plan.model_profile import TensorInfo
from torchdeck.plan.preview.rank_preview import HeldRows, TensorTable

Ints = npt.NDArray[np.int64]
T = TypeVar("T")
ROOT = 0
"""Root node."""
_NONE = -1
_SLICE = 1000


def nothing() -> None:
    """Do nothing: a pause of no length."""


def in_slices(values: Sequence[T], pause: Callable[[], None]) -> Iterator[tuple[int, T]]:
    """Enumerate `values` from 0, with a pause now and then to let other threads run."""
    for index, value in enumerate(values):
        if index % _SLICE == 0:
            pause()
        yield index, value


@dataclass(frozen=True, eq=False)
class ParameterTree:
    """Tree of nodes counted from 0, parents before their children; a node's tensors are contiguous."""

    table: TensorTable
    """Tensors in the order of the tree."""
    names: tuple[str, ...]
    """Name of each node, without those of its parent modules."""
    parents: tuple[int, ...]
    """Parent of each node; −1 for the root."""
    first: Ints
    """First tensor of each node, shape (nodes,)."""
    end: Ints
    """Last tensor of each node, plus one."""
    rows: Ints
    """Position of each node among its parent's children; shape (nodes,)."""
    by_parent: Ints
    """Nodes grouped by parent, in order; shape (nodes,)."""
    starts: Ints
    """First child of each node in `by_parent`, and the end; shape (nodes + 1,)."""

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.names)

    def children(self, node: int) -> tuple[int, ...]:
        """Return the direct children."""
        return tuple(self.by_parent[self.starts[node] : self.starts[node + 1]].tolist())

    def has_children(self, node: int) -> bool:
        """Return whether it is a module with content."""
        return bool(self.starts[node + 1] > self.starts[node])

    def tensor(self, node: int) -> TensorInfo | None:
        """Return the tensor of a leaf; None for a module."""
        if node == ROOT or self.has_children(node):
            return None
        return self.table.tensors[int(self.first[node])]

    def sums(self, values: Ints) -> Ints:
        """Return for each node the sum of its tensors' `values`, shape (tensors,) → (nodes,)."""
        reached = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
        totals: Ints = reached[self.end] - reached[self.first]
        return totals

    def hits(self, words: str, pause: Callable[[], None] = nothing) -> Ints:
        """Return 1 for each tensor whose full name has all of `words`, ignoring case, else 0; (tensors,)."""
        wanted = words.lower().split()
        found = np.zeros(len(self.table.tensors), np.int64)
        for index, tensor in in_slices(self.table.tensors, pause):
            name = tensor.name.lower()
            found[index] = all(word in name for word in wanted)
        return found


def parameter_tree(tensors: Sequence[TensorInfo], pause: Callable[[], None] = nothing) -> ParameterTree:
    """Return the tree of `tensors`, whose names are split at dots; modules in the order of their first
    tensor.

    A module whose only child is another module or a tensor is merged with it into one node.

    Args:
        tensors: tensors of the model.
        pause: called now and then, for callers next to a thread that must not wait.
    """
    growing = _Growing()
    for index, tensor in in_slices(tensors, pause):
        growing.add(tensor.name, index)
    flat = _Flat(growing)
    flat.flatten(pause)
    parents = np.array(flat.parents, dtype=np.int64)
    by_parent = np.argsort(parents, kind="stable")[1:]  # without the root, which comes first
    starts = np.searchsorted(parents[by_parent], np.arange(len(parents) + 1))
    rows = np.zeros(len(parents), dtype=np.int64)
    rows[by_parent] = np.arange(len(by_parent)) - starts[parents[by_parent]]
    return ParameterTree(
        TensorTable(tuple(tensors[index] for index in flat.order)),
        tuple(flat.names),
        tuple(flat.parents),
        np.array(flat.first, dtype=np.int64),
        np.array(flat.ends(), dtype=np.int64),
        rows,
        by_parent,
        starts,
    )


class _Growing:
    """Growing tree of modules and tensors, each with links to its first child and next sibling."""

    def __init__(self) -> None:
        self.names, self.tensors = [""], [_NONE]
        self.child, self.last, self.next = [_NONE], [_NONE], [_NONE]
        self._places = {"": ROOT}

    def add(self, name: str, tensor: int) -> None:
        """Insert a tensor by its name.

        "a" and "a.b" may both be tensors, and a name may occur twice: the second of them is put at the root
        with its full name.
        """
        parent = _NONE if name in self._places else self._module(name.rpartition(".")[0])
        if parent == _NONE:
            self._append(ROOT, name, tensor)
        else:
            self._places[name] = self._append(parent, name.rpartition(".")[2], tensor)

    def _module(self, path: str) -> int:
        """Return the module at `path`, created if needed; −1 if a tensor has that path."""
        missing = []
        while path not in self._places:
            missing.append(path)
            path = path.rpartition(".")[0]
        place = self._places[path]
        if self.tensors[place] != _NONE:
            return _NONE
        for inner in reversed(missing):
            place = self._places[inner] = self._append(place, inner.rpartition(".")[2], _NONE)
        return place

    def _append(self, parent: int, name: str, tensor: int) -> int:
        made = len(self.names)
        self.names.append(name)
        self.tensors.append(tensor)
        for links in (self.child, self.last, self.next):
            links.append(_NONE)
        if self.child[parent] == _NONE:
            self.child[parent] = made
        else:
            self.next[self.last[parent]] = made
        self.last[parent] = made
        return made


class _Flat:
    """Columns of a `ParameterTree`, depth first."""

    def __init__(self, growing: _Growing) -> None:
        self._growing = growing
        self.names, self.parents, self.first = [""], [_NONE], [0]
        self.order: list[int] = []

    def flatten(self, pause: Callable[[], None]) -> None:
        """Append everything below the root."""
        growing = self._growing
        waiting = [(growing.child[ROOT], ROOT)]  # a place, and the parent node of it and its siblings
        while waiting:
            place, parent = waiting.pop()
            if place == _NONE:
                continue
            if len(self.names) % _SLICE == 0:
                pause()
            waiting.append((growing.next[place], parent))
            node = len(self.names)
            inside = self._append(place, parent)
            waiting.append((growing.child[inside], node))

    def ends(self) -> list[int]:
        """Return the last tensor of each node, plus one."""
        ends = [*self.first[1:], len(self.order)]
        for node in range(len(ends) - 1, ROOT, -1):
            parent = self.parents[node]
            ends[parent] = max(ends[parent], ends[node])
        return ends

    def _append(self, place: int, parent: int) -> int:
        """Append a node for `place`, or for its only child; return the position of that."""
        growing = self._growing
        name = growing.names[place]
        while growing.child[place] != _NONE and growing.child[place] == growing.last[place]:
            place = growing.child[place]
            name = f"{name}.{growing.names[place]}"
        self.names.append(name)
        self.parents.append(parent)
        self.first.append(len(self.order))
        if growing.tensors[place] != _NONE:
            self.order.append(growing.tensors[place])
        return place


# Texts of tensors and of the rows that a rank holds of them. No Qt.

_SHORTENED = 10_000
_LEAST = 0.005
_HEAD = ("name", "shape", "dtype", "bytes", "first row held", "rows held", "bytes held")


def shape_text(tensor: TensorInfo) -> str:
    """Return `4,096 × 1,024`; `scalar` for a tensor without dimensions."""
    return " × ".join(f"{length:,}" for length in tensor.shape) or "scalar"


def type_text(tensor: TensorInfo) -> str:
    """Return `bfloat16` or `float32, frozen`."""
    return tensor.dtype if tensor.trainable else f"{tensor.dtype}, frozen"


def rows_text(first: int, rows: int, length: int) -> str:
    """Return `all 4,096`, `0–1,023 of 4,096` or `none of 10`."""
    if rows == length:
        return f"all {length:,}"
    if rows == 0:
        return f"none of {length:,}"
    last = first + rows - 1
    which = f"{first:,}" if rows == 1 else f"{first:,}–{last:,}"
    return f"{which} of {length:,}"


def share_text(share: float) -> str:
    """Return a short `74 %` or `< 1 %` for a column."""
    return "< 1 %" if 0 < share < _LEAST else f"{share * 100:.0f} %"


def number_text(number: int) -> str:
    """Return a parameter count as used in model names: `1,016`, `873.2k`, `6.48B`."""
    if number >= 10**9:
        return f"{number / 10**9:,.2f}B"
    if number >= 10**6:
        return f"{number / 10**6:.1f}M"
    return f"{number / 1000:.1f}k" if number >= _SHORTENED else f"{number:,}"


def as_text(tree: ParameterTree, held: HeldRows | None, nodes: Iterable[int]) -> str:
    """Return the tensors below `nodes`, each once, as tab-separated lines below a heading."""
    chosen = sorted({index for node in nodes for index in range(int(tree.first[node]), int(tree.end[node]))})
    lines = ["\t".join(_HEAD)]
    for index in chosen:
        tensor = tree.table.tensors[index]
        shape = "×".join(map(str, tensor.shape))
        part = ("", "", "")
        if held is not None:
            part = (str(held.first_row[index]), str(held.rows[index]), str(held.sizes[index]))
        lines.append("\t".join((tensor.name, shape, tensor.dtype, str(tensor.size), *part)))
    return "\n".join(lines) + "\n"
