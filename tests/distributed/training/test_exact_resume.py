"""Stopped and resumed at the same world size: bit for bit the training that was never stopped, on real ranks.

Three ranks and four: two add up in either order to the same number, three do not.
"""

import pytest

from support.ranks.measured_ranks import Job
from support.training.equivalence import Trained, run

pytestmark = pytest.mark.processes

SMALL_BUCKETS = {"bucket_size_mb": 0.001}
"""Several of them, though the model is small."""

CASES: dict[str, tuple[Job, int]] = {
    "ddp-3": ({"strategy": "ddp", "world_size": 3, "accumulation": 1}, 3),
    "ddp-4": ({"strategy": "ddp", "world_size": 4, "accumulation": 1, "ddp": SMALL_BUCKETS}, 3),
    "ddp-3-accumulating": ({"strategy": "ddp", "world_size": 3, "accumulation": 2, "ddp": SMALL_BUCKETS}, 3),
    "ddp-3-static": (
        {
            "strategy": "ddp",
            "world_size": 3,
            "accumulation": 1,
            "ddp": {"static_graph": True} | SMALL_BUCKETS,
        },
        3,
    ),
    "ddp-3-unused": (
        {"strategy": "ddp", "world_size": 3, "accumulation": 1, "ddp": {"find_unused_parameters": True}},
        3,
    ),
    "ddp-3-bf16": ({"strategy": "ddp", "world_size": 3, "accumulation": 1, "ddp": {"comm_hook": "bf16"}}, 3),
    "ddp-3-powersgd": (
        {
            "strategy": "ddp",
            "world_size": 3,
            "accumulation": 1,
            "ddp": {"comm_hook": "powersgd", "powersgd_rank": 1} | SMALL_BUCKETS,
        },
        12,  # after the steps whose gradients are whole
    ),
    "fsdp-3": ({"strategy": "fsdp", "world_size": 3, "accumulation": 1}, 3),
    "fsdp-3-offload": (
        {"strategy": "fsdp", "world_size": 3, "accumulation": 2, "fsdp": {"cpu_offload": True}},
        3,
    ),
    "hsdp-4": ({"strategy": "hsdp", "world_size": 4, "accumulation": 1, "hsdp": {"shard": 2}}, 3),
}
"""Name → what is trained, and the step it is resumed from."""
USUAL = ("ddp-4", "ddp-3-static", "ddp-3-powersgd", "fsdp-3", "hsdp-4")
"""In a normal run; the others under --soak."""
AFTER = 3
"""Steps after it."""


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, tuple[Trained, Trained]]:
    """Without a stop, and resumed."""
    jobs: list[Job] = []
    names = list(CASES if request.config.getoption("--soak") else USUAL)
    for name in names:
        job, stop = CASES[name]
        folder = tmp_path_factory.mktemp(name)
        saving = {
            **job,
            "folder": str(folder),
            "every": stop,
            "training": {"steps": stop + AFTER, "clip": None},
        }
        jobs += [saving, {**saving, "resume": str(folder / "checkpoints" / f"step_{stop:08d}")}]
    done = iter(run(jobs))
    return {name: (next(done), next(done)) for name in names}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in USUAL else [pytest.mark.soak]) for name in CASES]
)
def test_resumed_training_is_the_one_without_a_stop(
    trained: dict[str, tuple[Trained, Trained]], name: str
) -> None:
    """The same losses, digit for digit, and the same weights, bit for bit, on every rank."""
    straight, resumed = trained[name]
    assert len(resumed.losses) == AFTER
    assert resumed.losses == straight.losses[-AFTER:]
    assert resumed.weights == straight.weights
