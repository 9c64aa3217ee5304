"""Choice of free GPUs for a run: which nodes, and which of their devices. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torchdeck.nodes.gpus.gpu_now import USED_PERCENT


@dataclass(frozen=True)
class FreeGpu:
    """One GPU that nothing uses."""

    index: int
    model: str


class FreeNode(NamedTuple):
    """One node and its free GPUs."""

    name: str
    gpus: tuple[FreeGpu, ...]

    def indices(self, model: str) -> frozenset[int]:
        """Return the indices of its free GPUs of one model."""
        return frozenset(gpu.index for gpu in self.gpus if gpu.model == model)


@dataclass(frozen=True)
class Offer:
    """GPUs that a run can take: the same indices on each node, as `distributed.devices` is one list."""

    model: str
    nodes: tuple[str, ...]
    devices: tuple[int, ...]

    @property
    def count(self) -> int:
        """Return the number of GPUs of all nodes."""
        return len(self.nodes) * len(self.devices)


def is_unused(memory: int, free: int | None, *, has_users: bool, is_leased: bool) -> bool:
    """Return whether nothing uses a GPU: no process, no run, and hardly any memory.

    Args:
        memory: bytes of the GPU.
        free: free bytes; None if unknown, which is not unused.
        has_users: whether processes use it.
        is_leased: whether a run has leased it.
    """
    if has_users or is_leased or free is None:
        return False
    return 100.0 * (memory - free) < USED_PERCENT * memory


def take(nodes: Sequence[FreeNode], count: int, model: str) -> Offer | None:
    """Return `count` free GPUs of one model on as few nodes as possible; None if there are none.

    One node is chosen by what it has left afterwards: as little as possible. Several nodes give the same
    number each, at indices that are free on all of them.

    Args:
        nodes: nodes in the order of preference.
        count: number of GPUs.
        model: name of the GPU.
    """
    free = {node.name: node.indices(model) for node in nodes}
    for number in range(1, min(max(0, count), len(nodes)) + 1):
        if count % number:
            continue
        each = count // number
        enough = {name: indices for name, indices in free.items() if len(indices) >= each}
        found = _together(enough, number, each)
        if found is not None:
            return Offer(model, *found)
    return None


def _together(
    free: dict[str, frozenset[int]], number: int, each: int
) -> tuple[tuple[str, ...], tuple[int, ...]] | None:
    """Return `number` nodes, and `each` indices that are free on all of them."""
    best: tuple[int, tuple[str, ...], frozenset[int]] | None = None
    for first, indices in free.items():
        names, common = [first], indices
        left = {name: others for name, others in free.items() if name != first}
        while len(names) < number and left:
            name = max(left, key=lambda name: len(common & left[name]))
            names.append(name)
            common &= left.pop(name)
        if len(names) == number and len(common) >= each and (best is None or len(common) < best[0]):
            best = (len(common), tuple(names), common)
    if best is None:
        return None
    order = [name for name in free if name in best[1]]
    return tuple(order), tuple(sorted(best[2])[:each])


def offers(nodes: Sequence[FreeNode]) -> list[Offer]:
    """Return what can be taken of each model, models with most GPUs first: 1, 2, 4, … and the most."""
    found = []
    for model in _models(nodes):
        total = sum(len(node.indices(model)) for node in nodes)
        counts = sorted({2**power for power in range(total.bit_length()) if 2**power <= total} | {total})
        found += [offer for count in counts if (offer := take(nodes, count, model)) is not None]
    return found


def offer_of(nodes: Sequence[FreeNode], count: int, model: str | None = None) -> Offer | None:
    """Return `count` free GPUs of one model, or of any one; None if there are none."""
    found = (take(nodes, count, each) for each in _models(nodes) if model in (None, each))
    return next((offer for offer in found if offer is not None), None)


def _models(nodes: Iterable[FreeNode]) -> list[str]:
    names = [gpu.model for node in nodes for gpu in node.gpus]
    return sorted(dict.fromkeys(names), key=lambda name: -names.count(name))


def changes(offer: Offer) -> Iterator[tuple[str, list[str] | list[int] | None]]:
    """Yield the keys of a run file and their values for taking `offer`; None: the default."""
    yield "distributed.nodes", list(offer.nodes)
    yield "distributed.devices", list(offer.devices)
    yield "distributed.nproc", None
