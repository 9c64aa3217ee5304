"""Bytes that real DeepSpeed ranks hold, against those computed from shapes alone: no difference."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from support.deepspeed.deepspeed_jobs import run_jobs
from support.ranks.torch_process import run_torch
from support.system.deepspeed_python import ABSENT, deepspeed_environment, deepspeed_python
from torchdeck.config.loader import config_from_dict
from torchdeck.contract.plan.model_profile import TensorInfo
from torchdeck.plan.memory.spec import Kind, StrategySpec, spec_from
from torchdeck.plan.memory.zero_state import ZeroOptions, ZeroState, zero_state

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(deepspeed_python() is None, reason=ABSENT),
]

KINDS: tuple[Kind, ...] = ("zero1", "zero2", "zero3")
UNEVEN = [[7, 5], [13], [3], [129, 11], [2, 2, 2], [1], [40, 40]]
FEW = [[3], [1, 1]]
LONG = [[997], [1], [5, 3, 7], [211, 2], [64]]
SCALARS = 8


@dataclass(frozen=True)
class Case:
    """One training; DeepSpeed's buckets are made small, as its defaults are gigabytes."""

    stage: int
    shapes: list[list[int]]
    bf16: bool = False
    offload: bool = False
    accumulation: int = 1
    optimizer: str = "adamw"
    vectors_apart: bool = False
    frozen: tuple[int, ...] = ()
    bucket: int = 1000
    persistence: int = 0
    sub_group: int = 1_000_000_000


BASE = [
    Case(stage, UNEVEN, bf16=bf16, offload=offload)
    for stage in (1, 2, 3)
    for bf16 in (False, True)
    for offload in (False, True)
]
SPECIAL = [
    Case(1, LONG, vectors_apart=True, accumulation=3),
    Case(2, UNEVEN, offload=True, bf16=True, accumulation=2),
    Case(2, LONG, vectors_apart=True, frozen=(3,)),
    Case(2, FEW, optimizer="sgd"),
    Case(3, UNEVEN, persistence=50, sub_group=100),
    Case(3, LONG, vectors_apart=True, frozen=(0, 3), bf16=True),
    Case(3, FEW, offload=True, accumulation=2),
]


@pytest.mark.parametrize(
    "world_size", [*(pytest.param(world, marks=pytest.mark.soak) for world in (1, 2, 4)), 3]
)
def test_what_a_rank_holds_when_a_step_begins(world_size: int, tmp_path: Path) -> None:
    """Parameters, gradients, optimizer state and buffers of every rank, and nothing unnamed beside."""
    cases = (
        [*BASE, *SPECIAL] if world_size == 3 else [*BASE[world_size % 2 :: 2], *SPECIAL[world_size % 2 :: 2]]
    )
    for case, ranks in zip(cases, _held(world_size, cases, tmp_path), strict=True):
        state = _computed(world_size, case)
        for rank, held in enumerate(ranks):
            rest = held["before"].pop("rest")
            assert held["before"] == _of_rank(state, rank), f"{case}, rank {rank}"
            assert rest <= SCALARS * (len(case.shapes) + 4), f"{case}, rank {rank}"
            passing = int(state.passing_gradients[rank])
            assert held["before"]["gradients"] - held["after"]["gradients"] == passing, f"{case}, rank {rank}"


def test_ranks_of_our_strategy_hold_what_is_predicted(tmp_path: Path) -> None:
    """With its buckets and what it leaves to DeepSpeed, by the spec that a config makes."""
    settings = [
        (1, "fp32", False),
        (2, "bf16", False),
        (3, "fp32", False),
        (2, "fp32", True),
        (3, "bf16", True),
    ]
    jobs = [
        {"do": "hold", "world_size": 2, "shapes": UNEVEN, "precision": precision,
         "deepspeed": {"zero_stage": stage, "offload_optimizer": offload, "bucket_size_mb": 0.002}}
        for stage, precision, offload in settings
    ]  # fmt: skip
    tensors = [TensorInfo(str(i), tuple(shape), "float32", True, 0) for i, shape in enumerate(UNEVEN)]
    for job, ranks in zip(jobs, run_jobs(jobs), strict=True):
        tables: dict[str, Any] = {
            "training": {"steps": 1, "precision": job["precision"]},
            "distributed": {"strategy": "deepspeed", "deepspeed": job["deepspeed"]},
        }
        spec = spec_from(config_from_dict({"run": {"recipe": "byte-gpt"}, **tables}, tmp_path), 2)
        state = zero_state(tensors, spec, options=ZeroOptions.of(spec))
        for rank, held in enumerate(ranks):
            assert held == _of_rank(state, rank), f"{job}, rank {rank}"


@pytest.mark.soak
@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_every_mixture(world_size: int, tmp_path: Path) -> None:
    """All combinations of shapes, stages, precision, offload, groups and accumulation."""
    cases = [
        replace(case, shapes=shapes, vectors_apart=apart, accumulation=accumulation)
        for case in BASE
        for shapes in (UNEVEN, FEW, LONG)
        for apart in (False, True)
        for accumulation in (1, 2)
    ]
    for case, ranks in zip(cases, _held(world_size, cases, tmp_path), strict=True):
        state = _computed(world_size, case)
        for rank, held in enumerate(ranks):
            held["before"].pop("rest")
            assert held["before"] == _of_rank(state, rank), f"{case}, rank {rank}"


def _computed(world_size: int, case: Case) -> ZeroState:
    parameters = [
        TensorInfo(str(index), tuple(shape), "float32", index not in case.frozen, 0)
        for index, shape in enumerate(case.shapes)
    ]
    spec = StrategySpec(
        kind=KINDS[case.stage - 1],
        world_size=world_size,
        shard=world_size,
        accumulation=case.accumulation,
        precision="bf16" if case.bf16 else "fp32",
        offload=case.offload,
        optimizer=case.optimizer,
        momentum=0.9 if case.optimizer == "sgd" else 0.0,
    )
    options = ZeroOptions(case.bucket, case.persistence, case.sub_group, vectors_apart=case.vectors_apart)
    return zero_state(parameters, spec, options=options)


def _of_rank(state: ZeroState, rank: int) -> dict[str, int]:
    """The parts of one rank; a CPU rank's device and host are one memory."""
    return {
        part: int(getattr(state.device, part)[rank] + getattr(state.host, part)[rank])
        for part in ("parameters", "gradients", "optimizer", "buffers")
    }


def _held(world_size: int, cases: list[Case], folder: Path) -> list[list[dict[str, dict[str, int]]]]:
    request, answer = folder / "request.json", folder / "held.json"
    request.write_text(json.dumps({"world_size": world_size, "cases": [asdict(case) for case in cases]}))
    python: Any = deepspeed_python()
    argv = ["-m", "support.deepspeed.zero_ranks", str(request), str(answer)]
    result = run_torch(argv, env=deepspeed_environment(), python=python, limit=1800)
    assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]
    held: list[list[dict[str, dict[str, int]]]] = json.loads(answer.read_text())
    return held
