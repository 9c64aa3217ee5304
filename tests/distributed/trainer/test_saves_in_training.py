"""Checkpoints of real training: in the background, by epochs, by what they cost, and when they fail."""

import re
from pathlib import Path
from typing import Any

import pytest

from support.ranks.rank_here import RankHere
from support.ranks.recipe_ranks import FinishedRanks, recipe_settings, run_ranks
from support.waiting import wait_until
from torchdeck.contract.checkpoints.listing import list_checkpoints
from torchdeck.contract.checkpoints.manifest import read_manifest
from torchdeck.contract.checkpoints.verification import verify
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.distributed.checkpoints import store
from torchdeck.distributed.checkpoints.checkpoint_saving import Written, write_all
from torchdeck.metrics import RunMetrics

RECIPE = """
import os, pathlib, time
import torch
from torch import nn
from torch.utils.data import TensorDataset

def build_model(options):
    return nn.Sequential(nn.Dropout(0.2), nn.Linear(3, 1))

def build_data(options, split):
    x = torch.randn(48, 3, generator=torch.Generator().manual_seed(0))
    return TensorDataset(x, x.sum(1, keepdim=True))

def loss(model, batch):
    model.calls = getattr(model, "calls", 0) + model.training
    if model.calls == int(os.environ.get("BREAK_AT", "0")) and os.environ.get("RANK", "0") == "0":
        folder = pathlib.Path(os.environ["TORCHDECK_RUN_DIR"], "checkpoints")
        while (folder / "step_00000004" / ".uncommitted").exists() or not (folder / "step_00000004").exists():
            time.sleep(0.01)
        folder.rename(folder.with_name("kept"))
        folder.write_text("in the way")
    x, y = batch
    return ((model(x) - y) ** 2).mean()
"""


def _settings(folder: Path, *, checkpoint: dict[str, Any], **training: Any) -> dict[str, Any]:
    path = folder / "recipe.py"
    path.write_text(RECIPE)
    settings = recipe_settings(folder, str(path), **training)
    settings["checkpoint"] |= checkpoint
    return settings


def _metric(folder: Path, name: str) -> dict[int, float]:
    """Step → value, of rank 0."""
    metrics = RunMetrics(folder)
    metrics.refresh()
    series = metrics.series(name, 0, effective=True)
    return dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def _steps(folder: Path) -> list[int]:
    return [info.step for info in list_checkpoints(folder) if info.path.name != "final"]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RankHere:
    return RankHere(monkeypatch, capsys)


@pytest.mark.processes
def test_background_saves_are_those_of_synchronous_ones(tmp_path: Path) -> None:
    """On two ranks, the same files at the same steps: nothing of later steps is in them."""
    folders = {}
    for in_background in (False, True):
        folder = tmp_path / f"background-{in_background}"
        folder.mkdir()
        settings = _settings(folder, checkpoint={"every": 4, "background": in_background}, steps=12)
        run_ranks(settings, folder, 2).succeeded()
        folders[in_background] = folder / "checkpoints"
    for name in ("step_00000004", "step_00000008", "final"):
        synchronous, background = (dict(read_manifest(folder / name).files) for folder in folders.values())
        # DCP notes there where it wrote to
        assert {".metadata"} == {item for item in synchronous if synchronous[item] != background.get(item)}
        assert verify(folders[True] / name) == []


@pytest.mark.processes
def test_a_save_that_fails_in_the_background_ends_all_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ranks end with the same sentence; the checkpoint before it is sound."""
    monkeypatch.setenv("BREAK_AT", "6")
    settings = _settings(tmp_path, checkpoint={"every": 4, "background": True}, steps=4000)
    ranks: FinishedRanks = run_ranks(settings, tmp_path, 2)
    assert ranks.codes == [1, 1]
    # how much of the disk is free stands in it, too, as each saw it
    first, second = (re.sub(r"\d+ MiB", "", ranks.error(rank)["message"]) for rank in range(2))
    assert first == second
    assert "checkpoint step_00000008 could not be saved" in first
    assert "Not a directory" in first
    assert verify(tmp_path / "kept" / "step_00000004") == []


def test_auto_measures_and_says_what_it_chose(
    tmp_path: Path, here: RankHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first checkpoint comes after 10 steps; metrics tell the stall, the whole save and the interval."""
    file = RunLayout(tmp_path).attempt(1).rank(0).progress

    def trains_again() -> bool:
        progress = read_progress(file)
        return progress is not None and progress.phase == "training" and progress.step >= 10

    def written_late(*given: Any) -> Written:
        # else all of it may be on disk before the thread that trains gets a core again
        wait_until(trains_again, 30, "training to continue")
        return write_all(*given)

    monkeypatch.setattr(store, "write_all", written_late)
    checkpoint = {"auto": True, "background": True, "mtbf": 24.0, "max_stall": 0.01}
    settings = _settings(tmp_path, checkpoint=checkpoint, strategy="single", steps=30, final=False)
    assert here.run(settings, tmp_path)[0] == 0
    assert _steps(tmp_path / "checkpoints") == [10]
    (stall,), (seconds,), (interval,) = (
        _metric(tmp_path, name).values() for name in ("save_stall", "save_seconds", "save_interval")
    )
    assert 0 < stall <= seconds
    assert interval >= stall * 99
    assert _metric(tmp_path, "save_interval").keys() == {10}


def test_every_epoch(tmp_path: Path, here: RankHere) -> None:
    """48 samples, 8 a step: epochs of 6 steps, and a checkpoint at the end of every second one."""
    settings = _settings(
        tmp_path,
        checkpoint={"every_epochs": 2},
        strategy="single",
        microbatch=8,
        steps=None,
        epochs=5.0,
    )
    assert here.run(settings, tmp_path)[0] == 0
    assert _steps(tmp_path / "checkpoints") == [12, 24]
