"""Checkpoints for people who use the library by itself."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import torch
from torch import nn

from support.ranks.torch_process import run_torch
from support.ranks.torch_servers import TESTS
from support.values.checkpoint_files import flip
from torchdeck.contract.checkpoints import verification
from torchdeck.contract.checkpoints.manifest import CheckpointError, FileEntry, read_manifest
from torchdeck.contract.checkpoints.verification import hash_file, verify
from torchdeck.distributed import (
    CheckpointManager,
    DistributedStrategy,
    auto_resume,
    find_latest_checkpoint,
)


def _training() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def _step(model: nn.Module, optimizer: torch.optim.Optimizer) -> float:
    loss = model(torch.randn(4, 3)).square().mean()
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()
    return float(loss.detach())


def _saved(directory: Path, losses: dict[int, float]) -> None:
    model, optimizer = _training()
    with CheckpointManager(directory, keep_last=9) as checkpoints:
        for step, loss in losses.items():
            checkpoints.save(step, model, optimizer, metrics={"validation_loss": loss})


@pytest.mark.parametrize("background", [False, True])
def test_a_training_goes_on_where_it_was(tmp_path: Path, background: bool) -> None:
    """Model, optimizer, schedule, random state and whatever was given come back; losses are the same."""
    model, optimizer = _training()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    with CheckpointManager(tmp_path, every=2, background=background) as checkpoints:
        assert checkpoints.restore(model, optimizer) is None
        for step in (1, 2):
            _step(model, optimizer)
            schedule.step()
            if checkpoints.should_save(step):
                checkpoints.save(
                    step, model, optimizer, scheduler=schedule, position={"epoch": 3}, extra={"seen": 8}
                )
        straight = [_step(model, optimizer) for _ in range(3)]
    folder = tmp_path / "step_00000002"
    assert verify(folder) == []
    model, optimizer = _training()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    with CheckpointManager(tmp_path) as checkpoints:
        loaded = checkpoints.restore(model, optimizer, scheduler=schedule)
    assert loaded is not None
    assert (loaded.step, loaded.position, loaded.extra) == (2, {"epoch": 3}, {"seen": 8})
    assert (loaded.folder, loaded.refused, loaded.rng_restored) == (folder, (), True)
    assert schedule.get_last_lr() == [pytest.approx(0.01)]
    assert [_step(model, optimizer) for _ in range(3)] == straight


def test_which_stay_and_which_is_best(tmp_path: Path) -> None:
    """The newest, the multiples and the best stay; `final` besides."""
    model, optimizer = _training()
    with CheckpointManager(tmp_path, keep_last=1, keep_every=4, keep_best=1) as checkpoints:
        assert (checkpoints.latest(), checkpoints.best(), checkpoints.all()) == (None, None, [])
        for step, loss in {1: 0.9, 2: 0.1, 3: 0.5, 4: 0.7, 5: 0.4, 6: 0.3}.items():
            checkpoints.save(step, model, optimizer, metrics={"validation_loss": loss})
        checkpoints.save(6, model, optimizer, final=True)
        best, latest = checkpoints.best(), checkpoints.latest()
        assert [info.path.name for info in checkpoints.all()] == [
            "step_00000002",
            "step_00000004",
            "step_00000006",
            "final",
        ]
    assert best is not None
    assert latest is not None
    assert (best.step, latest.path.name) == (2, "final")
    assert read_manifest(best.path).metrics == {"validation_loss": 0.1}


def test_a_damaged_one_is_passed_over_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The one before is loaded; which was refused, and why, is in the result and in the log."""
    _saved(tmp_path, {1: 0.5, 2: 0.4})
    flip(tmp_path / "step_00000002" / "trainer.json", 5)
    assert find_latest_checkpoint(tmp_path) == tmp_path / "step_00000001"
    model, optimizer = _training()
    with caplog.at_level(logging.WARNING):
        loaded = auto_resume(tmp_path, model, optimizer)
    assert loaded is not None
    assert (loaded.step, [item.folder.name for item in loaded.refused]) == (1, ["step_00000002"])
    assert "trainer.json is damaged: SHA-256" in loaded.refused[0].why
    assert "step_00000002 is passed over" in caplog.text
    (tmp_path / "step_00000001" / ".metadata").unlink()
    with pytest.raises(CheckpointError, match=r"every checkpoint in .* is damaged"):
        find_latest_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match=r"every checkpoint in .* is damaged"):
        auto_resume(tmp_path, model, optimizer)


def test_files_are_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large they are: what was found sound is read then."""
    _saved(tmp_path, {1: 0.5})
    hashed: list[str] = []

    def counted(path: Path) -> FileEntry:
        hashed.append(path.name)
        return hash_file(path)

    monkeypatch.setattr(verification, "hash_file", counted)
    assert auto_resume(tmp_path, *_training()) is not None
    assert sorted(hashed) == sorted(read_manifest(tmp_path / "step_00000001").files)


def test_loading_by_a_strategy_leaves_the_folder_alone(tmp_path: Path) -> None:
    """A directory of checkpoints, or one of them: neither locked nor cleaned, as another run may be at it."""
    _saved(tmp_path / "run", {1: 0.5, 2: 0.4})
    (tmp_path / "copy").mkdir()
    for name in ("step_00000001", "step_00000002"):
        (tmp_path / "run" / name).rename(tmp_path / "copy" / name)
    (tmp_path / "copy" / ".tmp-step_00000003-1").mkdir()  # of a save that is on its way
    there = sorted((tmp_path / "copy").iterdir())
    strategy = DistributedStrategy.from_config({"strategy": "single"})
    assert strategy.load(tmp_path / "copy", *_training()).step == 2
    assert strategy.load(tmp_path / "copy" / "step_00000001", *_training()).step == 1
    assert sorted((tmp_path / "copy").iterdir()) == there
    for empty in (tmp_path / "absent", tmp_path):
        with pytest.raises(CheckpointError, match="there is no checkpoint in"):
            strategy.load(empty, *_training())


def test_nothing_there_is_a_fresh_start(tmp_path: Path) -> None:
    """An absent directory is no error, and stays absent."""
    assert auto_resume(tmp_path / "absent", *_training()) is None
    assert find_latest_checkpoint(tmp_path / "absent") is None
    assert not (tmp_path / "absent").exists()


def test_another_model_is_no_reason_to_go_further_back(tmp_path: Path) -> None:
    """What is sound and does not fit is an error: an older one would not fit either."""
    _saved(tmp_path, {1: 0.5, 2: 0.4})
    model = nn.Linear(5, 2)
    with pytest.raises(CheckpointError, match=r"step_00000002 failed: it is of another model"):
        auto_resume(tmp_path, model, torch.optim.AdamW(model.parameters()))


def test_wrong_numbers_are_refused(tmp_path: Path) -> None:
    """Before a directory is made."""
    with pytest.raises(ValueError, match="every is 0"):
        CheckpointManager(tmp_path / "new", every=0)
    with pytest.raises(ValueError, match="keep_last is 0"):
        CheckpointManager(tmp_path / "new", keep_last=0)
    assert not (tmp_path / "new").exists()


@pytest.mark.processes
def test_ranks_save_and_go_on_together(tmp_path: Path) -> None:
    """Under DDP and FSDP2, in the background too, losses continue bit for bit; all ranks take the same."""
    done = run_torch(["-m", "support.ranks.manager_ranks", str(tmp_path)], cwd=TESTS, limit=200)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for strategy in ("ddp", "fsdp"):
        straight, again, alone = told[strategy]
        assert [rank[4] for rank in again] == straight
        assert [rank[:3] for rank in again] == [[4, True, []]] * 2
        assert alone[0][:3] == [4, False, []]
        assert alone[0][3] == again[0][3] == again[1][3]
    assert [rank[:3] for rank in told["damaged"]] == [[2, True, ["step_00000004"]]] * 2
    # each rank has a disk of its own, and what is damaged lies on the second
    assert [rank[:3] for rank in told["own disks"]] == [[2, True, ["step_00000004"]]] * 2
