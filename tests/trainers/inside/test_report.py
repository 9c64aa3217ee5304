"""A callback that fails is off, and says so; the others continue."""

import math
from pathlib import Path

import pytest

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.inside_state import InsideState, read_inside_state
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.contract.rank_layout import RankLayout
from torchdeck.metrics import RunMetrics
from torchdeck.trainers.inside.report import Report


@pytest.fixture
def rank(tmp_path: Path) -> RankLayout:
    layout = RunLayout(tmp_path).attempt(1).rank(0)
    layout.root.mkdir(parents=True)
    return layout


def fail() -> None:
    raise AttributeError("no such thing")


def test_a_trainer_that_fails_takes_its_progress_back(rank: RankLayout) -> None:
    """A step that stays the same would be taken for a hang."""
    report = Report(rank, stop_file=rank.root / "stop")
    report.claim("Trainer")
    report.saves_on_stop(saves=True)
    report.step(3, 10)
    report.guarded("Trainer", "on_step", fail)
    assert not rank.progress.exists()
    assert report.guarded("Trainer", "on_step", int) is None
    said = "Trainer, on_step: AttributeError: no such thing"
    assert read_inside_state(rank.inside) == InsideState(trainer="Trainer", failures=(said,))


def test_the_other_layers_continue(rank: RankLayout) -> None:
    """A trainer is not affected by a package that it imports, in a version that is not known."""
    report = Report(rank)
    report.guarded("Accelerate", "after its import", fail)
    assert report.guarded("Trainer", "on_train_begin", report.claims, "Trainer") is True
    report.guarded("Trainer", "on_step", report.step, 3, 10)
    progress = read_progress(rank.progress)
    assert progress is not None
    assert progress.step == 3
    said = "Accelerate, after its import: AttributeError: no such thing"
    assert read_inside_state(rank.inside) == InsideState(trainer="Trainer", failures=(said,))


def test_a_trainer_reports_unless_another_one_does(rank: RankLayout) -> None:
    report = Report(rank)
    assert report.claims("Accelerate", counted=True)
    assert not report.claims("torchtitan")
    assert report.claims("DeepSpeed", over=("Accelerate",))
    assert not report.claims("Accelerate")
    assert read_inside_state(rank.inside) == InsideState(trainer="DeepSpeed")


class Tensor:
    """A number as frameworks have them."""

    requires_grad = False

    def __float__(self) -> float:
        return 0.5


def test_the_numbers_among_logged_values_are_recorded(rank: RankLayout) -> None:
    """Whatever their type; a row of texts alone is none."""
    report = Report(rank)
    values = {"loss": 1 / 3, "steps": 7, "scale": Tensor(), "nan": math.nan, "name": "a", "list": [1.0]}
    report.metrics(values, 4)
    report.metrics({"name": "b"}, 5)
    metrics = RunMetrics(rank.root.parents[3])
    metrics.refresh()
    found = {name: metrics.latest(name, 0) for name in metrics.names()}
    assert {name: row.value for name, row in found.items() if row} == pytest.approx(
        {"loss": 1 / 3, "steps": 7.0, "scale": 0.5, "nan": math.nan}, rel=0, abs=0, nan_ok=True
    )
    assert {row.step for row in found.values() if row} == {4}
