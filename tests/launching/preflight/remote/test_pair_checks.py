"""From speeds of pairs to sentences that name a node, link or GPU."""

import dataclasses
from collections.abc import Collection

from support.values.machines import byte_gpt, plan
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.distributed.trial.pairs import Pair, Speed, schedule
from torchdeck.launching.preflight.remote.further import _from_json, _to_json
from torchdeck.launching.preflight.remote.pair_checks import check_pairs
from torchdeck.launching.preflight.remote.trial import (
    MARK,
    MOST_LINES,
    GpuSpeed,
    Measured,
    _Part,
    _stuck,
    _take,
    ranks_of_nodes,
)

SLOW = Speed(2e-3, 2e6)
FAST = Speed(1e-4, 1e9)
GPU = GpuSpeed("NVIDIA H100", 1e14, 5e10)


def plan_of(nodes: int, gpus: int = 0) -> LaunchPlan:
    one = plan(byte_gpt(distributed={"nproc": 1, "devices": "cpu"}))
    devices = tuple(f"GPU-{at}" for at in range(gpus))
    parts = tuple(
        dataclasses.replace(one.nodes[0], name=f"n{at}", node_rank=at, nproc=max(1, gpus), devices=devices)
        for at in range(nodes)
    )
    return dataclasses.replace(one, nodes=parts)


def said(
    made: LaunchPlan, slow: Collection[Pair], devices: dict[int, GpuSpeed] | None = None
) -> list[tuple[str, str]]:
    """Warnings by node."""
    gpus = bool(made.nodes[0].devices)
    pairs = {
        pair: SLOW if pair in slow else FAST
        for matching in schedule(ranks_of_nodes(made), gpus=gpus)
        for pair in matching
    }
    checks = check_pairs(made, Measured(1e-3, 1e8, made.world_size, pairs=pairs, devices=devices or {}))
    assert {check.node for check in checks} == {node.name for node in made.nodes}
    assert all(check.fix for check in checks if check.status == "warning")
    return [(check.node, check.what) for check in checks if check.status == "warning"]


def test_nothing_is_wrong() -> None:
    """Every node says what was measured between all."""
    assert said(plan_of(4), ()) == []
    assert said(plan_of(2, gpus=4), ()) == []
    (one, other) = check_pairs(plan_of(2), Measured(1e-3, 1e8, 2, pairs={(0, 1): FAST}))
    assert one.what == other.what
    assert one.what == "the pair of nodes exchanges 953.7 MiB/s in each direction, at most 0.10 ms"


def test_a_slow_node() -> None:
    ((node, what),) = said(plan_of(4), [(0, 2), (1, 2), (2, 3)])
    assert node == "n2"
    assert what == ("slow with other nodes: 1.9 MiB/s and 2.00 ms, where 953.7 MiB/s and 0.10 ms are usual")


def test_a_slow_link_is_said_at_both_ends() -> None:
    found = dict(said(plan_of(3), [(0, 2)]))
    assert set(found) == {"n0", "n2"}
    assert found["n0"].startswith("slow with n2 only: 1.9 MiB/s")
    assert found["n2"].startswith("slow with n0 only: ")


def test_a_slow_gpu_between_nodes() -> None:
    """Rank 5 is GPU 1 of the third node: its network card, and not the node's other one."""
    ((node, what),) = said(plan_of(4, gpus=2), [(1, 5), (3, 5), (5, 7)])
    assert node == "n2"
    assert what.startswith("GPU 1 is slow with other nodes, the node's other GPUs are not: ")


def test_a_node_whose_gpus_are_all_slow() -> None:
    """One sentence, and not one for each GPU."""
    slow = [(0, 4), (2, 4), (4, 6), (1, 5), (3, 5), (5, 7)]
    ((node, what),) = said(plan_of(4, gpus=2), slow)
    assert (node, what.startswith("slow with other nodes: ")) == ("n2", True)


def test_a_slow_gpu_and_a_slow_link_within_a_node() -> None:
    ((node, what),) = said(plan_of(2, gpus=4), [(4, 6), (5, 6), (6, 7)])
    assert (node, what.partition(":")[0]) == ("n1", "GPU 2 is slow with the node's other GPUs")
    ((node, what),) = said(plan_of(2, gpus=4), [(0, 3)])
    assert (node, what.partition(":")[0]) == ("n0", "GPU 0 and GPU 3 are slow with each other")


def test_a_gpu_that_is_slow_by_itself() -> None:
    """Compared with those of its model."""
    devices = dict.fromkeys(range(8), GPU)
    devices[5] = GPU._replace(compute=GPU.compute / 4)
    ((node, what),) = said(plan_of(2, gpus=4), (), devices)
    assert (node, what) == ("n1", "GPU 1 computes at 25% of the speed of the other NVIDIA H100")
    assert said(plan_of(2, gpus=4), (), {**devices, 5: GpuSpeed("NVIDIA T4", 1e13, 1e10)}) == []


def test_what_was_measured_survives_the_cache() -> None:
    measured = Measured(1e-3, 1e8, 2, pairs={(0, 1): FAST, (0, 2): SLOW}, devices={0: GPU})
    assert _from_json(_to_json(measured)) == measured


def line(text: str) -> dict[str, object]:
    return {"lines": [MARK + text], "code": None, "errors": ""}


def test_lines_of_pairs() -> None:
    """The lower rank's line counts, the better of two; what is impossible and a flood are passed over."""
    part = _Part(range(1), stages={0: "reduced"})
    assert _take(part, line('{"rank": 0, "stage": "pairing", "peer": 1}'))
    assert _take(part, line('{"rank": 0, "stage": "pair", "peer": 1, "latency": 0.1, "bandwidth": 5.0}'))
    assert part.pairs == {(0, 1): Speed(0.1, 5.0)}
    assert not part.pairing
    assert _take(part, line('{"rank": 0, "stage": "pair", "peer": 1, "latency": 0.2, "bandwidth": 6.0}'))
    assert part.pairs == {(0, 1): Speed(0.1, 6.0)}
    for wrong in ('"latency": -1', '"latency": "x"', '"latency": null', '"bandwidth": 3'):
        assert not _take(part, line(f'{{"rank": 0, "stage": "pair", "peer": 1, {wrong}}}'))
    assert not _take(part, line('{"rank": 7, "stage": "pair", "peer": 8, "latency": 1, "bandwidth": 1}'))
    part.lines = MOST_LINES
    assert not _take(part, line('{"rank": 0, "stage": "pairing", "peer": 2}'))


def test_a_pair_that_does_not_finish_is_named() -> None:
    parts = {name: _Part(range(1), stages={rank: "reduced"}) for rank, name in enumerate("abc")}
    parts["b"].pairing[1] = 2
    parts["c"].pairing[2] = 1
    found = _stuck(parts, 15.0)
    assert found.node == "b"
    assert "ranks 1 and 2 (nodes b and c)" in found.why
