"""The checkpoints of a run, as a list."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.values.checkpoint_files import save
from support.values.histories import agent_started, controller_journal, ended, event, finished, started
from support.values.made_runs import make_run
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.contract.refusal import Refusal
from torchdeck.distributed.checkpoints.checkpoint_directory import CheckpointDirectory
from torchdeck.runs.folders.checkpoints import checkpoint_directory, run_checkpoints
from torchdeck.use_cases.checkpoints.here import delete_checkpoint
from torchdeck.use_cases.table.notes import change_notes

PLAN = {"version": 1, "checkpoint": {"directory": "@{run_dir}/checkpoints"}}


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    done = [agent_started(), started(), ended(), finished()]
    return make_run(tmp_path, controller_journal(), done, plan=PLAN)


def test_the_newest_comes_first_and_the_best_is_named(layout: RunLayout) -> None:
    for step, loss in ((10, 3.0), (20, 1.0), (30, 2.0)):
        save(layout.checkpoints, step, metrics={"validation_loss": loss})
    found = run_checkpoints(layout)
    assert [row.info.step for row in found] == [30, 20, 10]
    assert [row.standing.best for row in found] == [False, True, False]
    assert all(row.info.complete and not row.is_leftover for row in found)


def test_a_save_under_way_is_in_the_list(layout: RunLayout) -> None:
    layout.checkpoints.mkdir()
    CheckpointDirectory(layout.checkpoints).make_temporary(layout.checkpoints / ".tmp-step_00000040-1")
    (row,) = run_checkpoints(layout)
    assert row.is_leftover
    assert row.info.step == 40


def test_one_is_deleted_and_the_others_stay(layout: RunLayout) -> None:
    old, new = save(layout.checkpoints, 10), save(layout.checkpoints, 20)
    delete_checkpoint(layout, old)
    assert not old.exists()
    assert [row.info.path for row in run_checkpoints(layout)] == [new]


def test_nothing_of_a_pinned_run_is_deleted(layout: RunLayout) -> None:
    folder = save(layout.checkpoints, 10)
    change_notes(layout.home.root, (layout.root.name,), lambda note: replace(note, pinned=True))
    with pytest.raises(Refusal, match="the run is pinned"):
        delete_checkpoint(layout, folder)
    assert folder.exists()


def test_nothing_is_deleted_while_the_run_goes_on(tmp_path: Path) -> None:
    alive = ProcessIdentity.of(1)
    assert alive is not None
    controller = event("controller_started", identity=alive.to_json(), epoch=1)
    layout = make_run(tmp_path, [*controller_journal(), controller], plan=PLAN)
    folder = save(layout.checkpoints, 10)
    with pytest.raises(CheckpointError, match="until it ends"):
        delete_checkpoint(layout, folder)
    assert folder.exists()


def test_nothing_else_is_deleted(layout: RunLayout, tmp_path: Path) -> None:
    elsewhere = save(tmp_path / "elsewhere", 10)
    with pytest.raises(CheckpointError, match="not one of the checkpoints"):
        delete_checkpoint(layout, elsewhere)
    assert elsewhere.exists()


def test_a_plan_that_says_no_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not tell where"):
        checkpoint_directory(make_run(tmp_path, controller_journal()))
