"""What real ranks hand to collectives is what the plan counts."""

from typing import Any

import pytest

from support.memory.measured_models import profile_of
from support.ranks.measured_ranks import measure
from support.values.machines import node
from torchdeck.plan.communication import Links, communication
from torchdeck.plan.memory.spec import Kind, StrategySpec
from torchdeck.plan.placement import NodeShare

pytestmark = pytest.mark.processes

RANKS = 4
BF16 = {"param_dtype": "bf16", "reduce_dtype": "bf16"}
USUAL: list[tuple[Kind, int, dict[str, Any]]] = [
    ("ddp", 1, {"accumulation": 2}),
    ("fsdp", 4, {"accumulation": 2, "checkpointing": True}),
    ("fsdp", 4, {"accumulation": 2, "fsdp": {"reshard_after_forward": False}}),
    ("hsdp", 2, {"fsdp": BF16, "training": {"steps": 1, "precision": "bf16"}}),
    ("ddp", 1, {"ddp": {"comm_hook": "bf16"}}),
]
MORE: list[tuple[Kind, int, dict[str, Any]]] = [
    ("fsdp", 4, {}),
    ("fsdp", 4, {"accumulation": 3}),
    ("fsdp", 4, {"checkpointing": True}),
    ("hsdp", 2, {"accumulation": 2}),
    ("hsdp", 1, {}),
]
"""Under --soak, too."""
CASES = USUAL + MORE
"""DistributedStrategy, ranks that shard, and what is asked for besides."""

HALVES = {"all-gather": "_allgather_base_", "reduce-scatter": "_reduce_scatter_base_"}


@pytest.fixture(scope="module")
def counted(request: pytest.FixtureRequest) -> list[dict[str, int]]:
    """What rank 0 counted, by case."""
    jobs = [
        {
            "world_size": RANKS,
            "recipe": "shapes",
            "strategy": kind,
            "accumulation": 1,
            "checkpointing": False,
            "distributed": {"hsdp": {"shard": shard}},
            **asked,
        }
        for kind, shard, asked in (CASES if request.config.getoption("--soak") else USUAL)
    ]
    by_rank = measure("support.training.counted_collectives:count_collectives", jobs)
    assert all(all(rank == ranks[0] for rank in ranks) for ranks in by_rank)
    return [ranks[0] for ranks in by_rank]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.soak] if case >= len(USUAL) else [])
        for case in range(len(CASES))
    ],
)
def test_collectives_of_a_step_are_as_counted(case: int, counted: list[dict[str, int]]) -> None:
    """To the byte: gathers, reductions and sums of a model of odd shapes, some of them frozen."""
    kind, shard, asked = CASES[case]
    precision = "bf16" if "training" in asked else "fp32"
    spec = StrategySpec(
        kind,
        RANKS,
        shard,
        accumulation=asked.get("accumulation", 1),
        comm_hook=asked.get("ddp", {}).get("comm_hook", "none"),
        reshard_after_forward=asked.get("fsdp", {}).get("reshard_after_forward", True),
        checkpointing=asked.get("checkpointing", False),
        param_precision=precision,
        reduce_precision=precision,
    )
    ranks = [NodeShare(node(), 0, RANKS, ())]
    planned = communication(profile_of("shapes"), spec, ranks, Links())
    sent = {HALVES.get(collective.name, "allreduce_"): collective.sent for collective in planned.collectives}
    expected = {
        name: -(-size * (RANKS // shard - 1) * 2 // (RANKS // shard))
        if name == "allreduce_"
        else size * (shard - 1) // shard
        for name, size in counted[case].items()
    }
    assert sent == {name: size for name, size in expected.items() if size}
    assert planned.sent > 0
