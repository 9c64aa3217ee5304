"""The same model, data and global batch under every strategy, on real ranks: the same training."""

from pathlib import Path

import pytest

from fakes import toy_strategy
from support.ranks.measured_ranks import Job
from support.training.equivalence import REFERENCE, STEPS, Trained, run

pytestmark = [
    pytest.mark.processes,
    pytest.mark.timeout(480),
]  # the first one waits for all jobs of the ranks

TOY = str(Path(toy_strategy.__file__))
"""A recipe whose file registers a strategy of its own."""
CLIP = 0.7
REL = 1e-4

OTHERS: dict[str, Job] = {
    "one-batch": {"strategy": "single", "world_size": 1, "accumulation": 1},
    "ddp-2x2": {"strategy": "ddp", "world_size": 2, "accumulation": 2},
    "ddp-4": {"strategy": "ddp", "world_size": 4, "accumulation": 1},
    "fsdp-4": {"strategy": "fsdp", "world_size": 4, "accumulation": 1},
    "hsdp-2x2": {"strategy": "hsdp", "world_size": 4, "accumulation": 1, "hsdp": {"shard": 2}},
    "ddp-static": {"strategy": "ddp", "world_size": 2, "accumulation": 1, "ddp": {"static_graph": True}},
    "ddp-unused": {
        "strategy": "ddp",
        "world_size": 2,
        "accumulation": 2,
        "ddp": {"find_unused_parameters": True},
    },
    "toy-2x2": {"strategy": "toy", "world_size": 2, "accumulation": 2, "recipe": TOY},
    "ddp-compiled": {
        "strategy": "ddp",
        "world_size": 2,
        "accumulation": 1,
        # whole batches: of a smaller one torch compiles again, for as long
        "training": {"compile": True, "steps": 3},
    },
    "fsdp-grad-op": {
        "strategy": "fsdp",
        "world_size": 2,
        "accumulation": 2,
        "fsdp": {"reshard_after_forward": False},
    },
    "fsdp-offload": {
        "strategy": "fsdp",
        "world_size": 2,
        "accumulation": 2,
        "fsdp": {"cpu_offload": True},
    },
    "fsdp-by-size": {
        "strategy": "fsdp",
        "world_size": 2,
        "accumulation": 1,
        "fsdp": {"wrap": "size", "min_params": 100},
    },
}
MORE = ("ddp-static", "fsdp-grad-op", "fsdp-by-size")
"""Under --soak; a normal run has these options in test_curves.py."""
NAMES = [pytest.param(name, marks=[pytest.mark.soak] if name in MORE else []) for name in OTHERS]


@pytest.fixture(scope="module")
def trained(request: pytest.FixtureRequest) -> dict[str, Trained]:
    """The reference and all others, ranks forked from one process."""
    soaks = request.config.getoption("--soak")
    jobs = {"reference": REFERENCE, **{name: OTHERS[name] for name in OTHERS if soaks or name not in MORE}}
    return dict(zip(jobs, run(list(jobs.values())), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_losses_are_those_of_one_process_that_accumulates(trained: dict[str, Trained], name: str) -> None:
    """Twenty steps in fp32, three compiled; with `one-batch`, accumulation is a batch 4 times as large."""
    reference, ours = trained["reference"], trained[name]
    assert len(reference.losses) == STEPS
    assert len(ours.losses) == OTHERS[name].get("training", {}).get("steps", STEPS)
    assert ours.losses == pytest.approx(reference.losses[: len(ours.losses)], rel=REL)
    assert reference.losses[-1] < 0.8 * reference.losses[0], "nothing was learnt, so nothing was compared"


@pytest.mark.parametrize("name", NAMES)
def test_norm_and_clipping_are_those_of_one_process(trained: dict[str, Trained], name: str) -> None:
    """Of the whole gradient, wherever its parts lie; steps with and without clipping."""
    reference, ours = trained["reference"], trained[name]
    assert ours.norms == pytest.approx(reference.norms[: len(ours.norms)], rel=REL)
    assert min(reference.norms) < CLIP < max(reference.norms), "clipped always or never"
