"""Hybrid sharding on real gloo ranks: the curve, the norm and the checkpoints of one process."""

from pathlib import Path
from typing import Any

import pytest

from fakes import masked_recipe
from support.ranks.recipe_ranks import FinishedRanks, recipe_settings, run_ranks
from torchdeck.metrics import RunMetrics

pytestmark = pytest.mark.processes

RECIPE = str(Path(masked_recipe.__file__))
SAMPLES, MICROBATCH, GLOBAL_BATCH, STEPS, CLIP = 22, 3, 12, 7, 0.7
"""The second step of each epoch is short, so ranks have unequal numbers of samples."""


def train(
    run_dir: Path,
    world_size: int,
    strategy: str,
    *,
    shard: int = 1,
    attempt: int = 1,
    resume: str = "",
    **more: Any,
) -> FinishedRanks:
    settings = recipe_settings(
        run_dir,
        RECIPE,
        data={"samples": SAMPLES},
        strategy=strategy,
        microbatch=MICROBATCH,
        accumulation=GLOBAL_BATCH // MICROBATCH // world_size,
        hsdp={"shard": shard},
        **{"steps": STEPS, "seed": 5, "clip": CLIP, "lr": 0.02, "every": 3} | more,
    )
    return run_ranks(settings, run_dir, world_size, attempt=attempt, resume=resume)


def norms(run_dir: Path) -> list[float]:
    metrics = RunMetrics(run_dir)
    metrics.refresh()
    return [float(value) for value in metrics.series("grad_norm", 0).values]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[float], list[float]]:
    """Losses and norms of one process."""
    folder = tmp_path_factory.mktemp("alone")
    done = train(folder, 1, "single").succeeded()
    return list(done.losses().values()), norms(folder)


@pytest.mark.parametrize(
    ("world_size", "shard"), [(4, 2), pytest.param(2, 2, marks=pytest.mark.soak), (2, 1)]
)
def test_curve_and_norm_are_those_of_one_process(
    world_size: int, shard: int, alone: tuple[list[float], list[float]], tmp_path: Path
) -> None:
    """Replicas × shard of 2×2, 1×2 and 2×1, with accumulation and clipping."""
    done = train(tmp_path, world_size, "hsdp", shard=shard).succeeded()
    losses, whole = alone
    assert list(done.losses().values()) == pytest.approx(losses, rel=1e-4)
    assert norms(tmp_path) == pytest.approx(whole, rel=1e-4)
    assert max(whole) > CLIP, "nothing was clipped, so nothing was compared"
    assert losses[-1] < losses[0]


def test_lower_precision_follows_the_curve(alone: tuple[list[float], list[float]], tmp_path: Path) -> None:
    """Weights gathered in bf16, gradients summed in fp32."""
    done = train(tmp_path, 4, "hsdp", shard=2, precision="bf16").succeeded()
    losses = list(done.losses().values())
    assert losses[0] == pytest.approx(alone[0][0], rel=1e-2)
    assert losses[-1] < losses[0]


@pytest.mark.soak  # test_exact_resume.py has hsdp, too
def test_stopped_and_resumed_is_bit_exact(tmp_path: Path) -> None:
    """From its own checkpoint in the middle to the same losses, digit for digit."""
    straight = train(tmp_path, 4, "hsdp", shard=2).succeeded().losses()
    checkpoint = tmp_path / "checkpoints" / "step_00000003"
    resumed = train(tmp_path, 4, "hsdp", shard=2, attempt=2, resume=str(checkpoint)).succeeded()
    assert resumed.losses() == {step: loss for step, loss in straight.items() if step > 3}


@pytest.mark.parametrize(
    ("saved", "resumed"),
    [
        (("ddp", 2, 1), ("hsdp", 2, 2)),
        # the state of these is compared in checkpoints/test_resume_matrix.py
        pytest.param(("fsdp", 2, 1), ("hsdp", 4, 2), marks=pytest.mark.soak),
        pytest.param(("hsdp", 4, 2), ("fsdp", 2, 1), marks=pytest.mark.soak),
        pytest.param(("hsdp", 2, 1), ("ddp", 2, 1), marks=pytest.mark.soak),
    ],
)
def test_training_goes_on_under_another_strategy(
    saved: tuple[str, int, int],
    resumed: tuple[str, int, int],
    alone: tuple[list[float], list[float]],
    tmp_path: Path,
) -> None:
    """A checkpoint of one strategy is continued under another on one process's curve."""
    strategy, world_size, shard = saved
    train(tmp_path, world_size, strategy, shard=shard, steps=3).succeeded()
    strategy, world_size, shard = resumed
    checkpoint = tmp_path / "checkpoints" / "final"
    done = train(tmp_path, world_size, strategy, shard=shard, attempt=2, resume=str(checkpoint)).succeeded()
    assert list(done.losses()) == list(range(4, STEPS + 1))
    assert list(done.losses().values()) == pytest.approx(alone[0][3:], rel=1e-4)


def test_groups_that_do_not_come_out_even_are_refused(tmp_path: Path) -> None:
    """Every rank says which number would do."""
    done = train(tmp_path, 2, "hsdp", shard=3)
    assert all(code != 0 for code in done.codes)
    assert all("expected a number that divides 2 ranks" in done.error(rank)["message"] for rank in (0, 1))
