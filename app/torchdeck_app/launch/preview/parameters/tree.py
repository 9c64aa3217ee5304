"""A model's parameters as a tree of modules, in columns, for models of a hundred thousand tensors. No Qt.

Columns, as so many objects with references to each other would keep Python's collector, and with it every
thread, for a third of a second at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from torchdeck.contract.plan.model_profile import TensorInfo
from torchdeck.plan.preview.tensors import TensorTable

Ints = npt.NDArray[np.int64]
T = TypeVar("T")
ROOT = 0
"""The node that holds all others."""
_NONE = -1
_SLICE = 1000


def nothing() -> None:
    """A pause of no length."""


def in_slices(values: Sequence[T], pause: Callable[[], None]) -> Iterator[tuple[int, T]]:
    """`values` counted from 0, with a pause now and then, so that another thread gets its turn."""
    for index, value in enumerate(values):
        if index % _SLICE == 0:
            pause()
        yield index, value


@dataclass(frozen=True, eq=False)
class ParameterTree:
    """Nodes counted from 0, parents before their children; a node's tensors follow each other."""

    table: TensorTable
    """The tensors, in the order of the tree."""
    names: tuple[str, ...]
    """Of each node, without those of the modules that hold it."""
    parents: tuple[int, ...]
    """Of each node; −1 for the root."""
    first: Ints
    """The first tensor of each node, shape (nodes,)."""
    end: Ints
    """Behind its last one."""
    rows: Ints
    """The place of each among its parent's children; shape (nodes,)."""
    by_parent: Ints
    """The nodes, those of one parent together, in order; shape (nodes,)."""
    starts: Ints
    """Where the children of each node begin in `by_parent`, and the end; shape (nodes + 1,)."""

    def __len__(self) -> int:
        """How many nodes."""
        return len(self.names)

    def children(self, node: int) -> tuple[int, ...]:
        """The nodes right below."""
        return tuple(self.by_parent[self.starts[node] : self.starts[node + 1]].tolist())

    def has_children(self, node: int) -> bool:
        """Whether it is a module that holds something."""
        return bool(self.starts[node + 1] > self.starts[node])

    def tensor(self, node: int) -> TensorInfo | None:
        """What a leaf stands for; None for a module."""
        if node == ROOT or self.has_children(node):
            return None
        return self.table.tensors[int(self.first[node])]

    def sums(self, values: Ints) -> Ints:
        """Of each node: the sum of its tensors' `values`, shape (tensors,) → (nodes,)."""
        reached = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
        totals: Ints = reached[self.end] - reached[self.first]
        return totals

    def hits(self, words: str, pause: Callable[[], None] = nothing) -> Ints:
        """1 for each tensor whose whole name has every one of `words`, in any case, else 0; (tensors,)."""
        wanted = words.lower().split()
        found = np.zeros(len(self.table.tensors), np.int64)
        for index, tensor in in_slices(self.table.tensors, pause):
            name = tensor.name.lower()
            found[index] = all(word in name for word in wanted)
        return found


def parameter_tree(tensors: Sequence[TensorInfo], pause: Callable[[], None] = nothing) -> ParameterTree:
    """The tree of `tensors`, whose names are split at dots; modules in the order of their first tensor.

    A module that holds nothing but one other, or one tensor, stands with it in one node.

    Args:
        tensors: of the model.
        pause: called now and then, for who builds it beside a thread that must not wait.
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
    """Modules and tensors as they come, each with its first child and the next of its parent's children."""

    def __init__(self) -> None:
        self.names, self.tensors = [""], [_NONE]
        self.child, self.last, self.next = [_NONE], [_NONE], [_NONE]
        self._places = {"": ROOT}

    def add(self, name: str, tensor: int) -> None:
        """Put a tensor where its name says.

        "a" and "a.b" may both be tensors, and a name may be there twice: the second of them stands whole at
        the root.
        """
        parent = _NONE if name in self._places else self._module(name.rpartition(".")[0])
        if parent == _NONE:
            self._append(ROOT, name, tensor)
        else:
            self._places[name] = self._append(parent, name.rpartition(".")[2], tensor)

    def _module(self, path: str) -> int:
        """The module at `path`, made where it is not there; −1 where a tensor is in the way."""
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
    """The columns of a `ParameterTree`, a node after the other, depth first."""

    def __init__(self, growing: _Growing) -> None:
        self._growing = growing
        self.names, self.parents, self.first = [""], [_NONE], [0]
        self.order: list[int] = []

    def flatten(self, pause: Callable[[], None]) -> None:
        """Everything below the root."""
        growing = self._growing
        waiting = [
            (growing.child[ROOT], ROOT)
        ]  # a place, and the node below which it and those next to it go
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
        """Behind the last tensor of each node."""
        ends = [*self.first[1:], len(self.order)]
        for node in range(len(ends) - 1, ROOT, -1):
            parent = self.parents[node]
            ends[parent] = max(ends[parent], ends[node])
        return ends

    def _append(self, place: int, parent: int) -> int:
        """A node for `place`, or for the only one that it holds; where that is."""
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
