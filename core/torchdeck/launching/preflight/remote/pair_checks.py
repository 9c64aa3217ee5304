"""From the speeds of pairs of ranks to checks that name the slow node, link or GPU."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.distributed.trial.pairs import Pair, Speed, Verdict, judge, slowest_members
from torchdeck.launching.preflight.remote.trial import GpuSpeed, Measured, ranks_of_nodes
from torchdeck.plan.check import Check, ok, warning
from torchdeck.quantities import size

NAME = "pairs"
_FIX_NODE = (
    "look at its network card, cable and switch port (`ethtool`, `ip -s link`) and at what else uses them, "
    "or run without it"
)
_FIX_LINK = "look at the path between the two: cables, switch ports, route and MTU (`tracepath`)"
_FIX_CARD = "look at the network card next to this GPU, its cable and its PCIe link (`nvidia-smi topo -m`)"
_FIX_GPUS = "look at NVLink and PCIe of this GPU (`nvidia-smi nvlink -s`, `nvidia-smi topo -m`)"
_FIX_GPU = (
    "look at its clocks, temperature, power limit and other processes (`nvidia-smi -q -d PERFORMANCE,POWER`)"
)


class Place(NamedTuple):
    """Where a rank is."""

    node: str
    local: int

    @property
    def gpu(self) -> str:
        """Its GPU, as the run's ranks of the node count them."""
        return f"GPU {self.local}"


def check_pairs(plan: LaunchPlan, measured: Measured) -> list[Check]:
    """Return at least one check for each node of the plan, whose pairs were measured in a trial."""
    ranks = ranks_of_nodes(plan)
    places = {
        rank: Place(node.name, local)
        for node, own in zip(plan.nodes, ranks, strict=True)
        for local, rank in enumerate(own)
    }
    gpus = any(node.devices for node in plan.nodes)
    found = [*_between(ranks, places, measured.pairs, gpus=gpus)]
    if gpus:
        for own in ranks:
            found += _inside(own, places, measured.pairs)
        found += _own_speed(places, measured.devices)
    bad = {check.node for check in found}
    summary = _summary(places, measured.pairs)
    return [*found, *(_fine(node, summary) for node in plan.nodes if node.name not in bad)]


def _fine(node: NodePlan, summary: str) -> Check:
    return ok(NAME, node.name, summary or "no pair of nodes to compare")


def _summary(places: Mapping[int, Place], pairs: Mapping[Pair, Speed]) -> str:
    """Return what was measured between nodes."""
    between = [speed for (a, b), speed in pairs.items() if places[a].node != places[b].node]
    if not between:
        return ""
    least, most = (int(choose(each.bandwidth for each in between)) for choose in (min, max))
    speeds = f"{size(least)}/s" if len(between) == 1 else f"{size(least)}/s to {size(most)}/s"
    latency = max(each.latency for each in between) * 1e3
    count = "the pair of nodes exchanges" if len(between) == 1 else f"{len(between)} pairs exchange"
    return f"{count} {speeds} in each direction, at most {latency:.2f} ms"


def _between(
    ranks: Sequence[Sequence[int]],
    places: Mapping[int, Place],
    pairs: Mapping[Pair, Speed],
    *,
    gpus: bool,
) -> Iterator[Check]:
    """Judge the connections between nodes: a node is slow if all its GPUs are, else one of them."""
    lanes = [[own[lane] for own in ranks if lane < len(own)] for lane in range(max(map(len, ranks)))]
    verdicts = [
        (lane, verdict)
        for lane in (lanes if gpus else lanes[:1])
        if (verdict := judge(lane, pairs)) is not None
    ]
    slow = [rank for _, verdict in verdicts for rank in verdict.slow]
    judged = {rank: (lane, verdict) for lane, verdict in verdicts for rank in lane}
    for own in ranks:
        here = [rank for rank in own if rank in slow]
        said = {rank: _with_others(rank, judged[rank][0], pairs, judged[rank][1]) for rank in here}
        if here and len(here) == sum(rank in judged for rank in own):
            yield warning(NAME, places[own[0]].node, f"slow with other nodes: {said[here[0]]}", _FIX_NODE)
            continue
        for rank in here:
            what = f"{places[rank].gpu} is slow with other nodes, the node's other GPUs are not: {said[rank]}"
            yield warning(NAME, places[rank].node, what, _FIX_CARD)
    yield from _links(verdicts, places, pairs)


def _links(
    verdicts: Sequence[tuple[Sequence[int], Verdict]],
    places: Mapping[int, Place],
    pairs: Mapping[Pair, Speed],
) -> Iterator[Check]:
    told: set[tuple[str, str]] = set()
    for _, verdict in verdicts:
        for pair in verdict.links:
            a, b = (places[rank] for rank in pair)
            if (a.node, b.node) in told:
                continue
            told.add((a.node, b.node))
            for own, other in ((a, b), (b, a)):
                said = _compared(pairs[pair], verdict.usual)
                what = f"slow with {other.node} only: {said}"
                yield warning(NAME, own.node, what, _FIX_LINK)


def _inside(own: Sequence[int], places: Mapping[int, Place], pairs: Mapping[Pair, Speed]) -> Iterator[Check]:
    """Judge the connections between the GPUs of one node."""
    verdict = judge(own, pairs)
    if verdict is None:
        return
    for rank in verdict.slow:
        said = _with_others(rank, own, pairs, verdict)
        what = f"{places[rank].gpu} is slow with the node's other GPUs: {said}"
        yield warning(NAME, places[rank].node, what, _FIX_GPUS)
    for pair in verdict.links:
        a, b = (places[rank] for rank in pair)
        what = f"{a.gpu} and {b.gpu} are slow with each other: {_compared(pairs[pair], verdict.usual)}"
        yield warning(NAME, a.node, what, _FIX_GPUS)


def _own_speed(places: Mapping[int, Place], devices: Mapping[int, GpuSpeed]) -> Iterator[Check]:
    """Compare GPUs of one model with each other."""
    for name in sorted({device.name for device in devices.values()}):
        alike = {rank: device for rank, device in devices.items() if device.name == name and rank in places}
        kinds = (
            ("computes at", {rank: device.compute for rank, device in alike.items()}),
            ("is copied to from main memory at", {rank: device.copy for rank, device in alike.items()}),
        )
        for words, values in kinds:
            for rank in slowest_members(values):
                others = statistics.median(value for each, value in values.items() if each != rank)
                share = f"{values[rank] / others:.0%} of the speed of the other {name}"
                what = f"{places[rank].gpu} {words} {share}"
                yield warning(NAME, places[rank].node, what, _FIX_GPU)


def _with_others(rank: int, group: Sequence[int], pairs: Mapping[Pair, Speed], verdict: Verdict) -> str:
    """Compare the pairs of one rank within a group with what is usual."""
    own = [speed for pair, speed in pairs.items() if rank in pair and set(pair) <= set(group)]
    latency, bandwidth = (statistics.median(each) for each in zip(*own, strict=True))
    return _compared(Speed(latency, bandwidth), verdict.usual)


def _compared(speed: Speed, normal: Speed) -> str:
    own = f"{size(int(speed.bandwidth))}/s and {speed.latency * 1e3:.2f} ms"
    return f"{own}, where {size(int(normal.bandwidth))}/s and {normal.latency * 1e3:.2f} ms are usual"
