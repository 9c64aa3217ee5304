"""RunList: all runs looked at again and again, at a cost of what changed."""

import math
import os
import shutil
from pathlib import Path

import pytest

from support.values.histories import (
    agent_started,
    controller_journal,
    ended,
    event,
    finished,
    running_run,
    started,
)
from support.values.made_runs import IDS, line, make_run
from support.values.metrics import write_rows
from torchdeck.contract.layout import Home
from torchdeck.runs import follower
from torchdeck.runs.run_list import RunList
from torchdeck.runs.run_state import RunState

DONE = [agent_started(), started(), ended(), finished()]


def test_an_empty_home_has_no_runs(tmp_path: Path) -> None:
    assert RunList(tmp_path).look().entries == ()


def test_the_newest_come_first_with_their_state(tmp_path: Path) -> None:
    for run_id in IDS:
        make_run(tmp_path, controller_journal(), DONE, run_id=run_id)
    seen = RunList(tmp_path).look()
    assert [entry.id for entry in seen.entries] == list(IDS[::-1])
    assert {entry.state for entry in seen.entries} == {RunState.SUCCEEDED}
    assert seen.unread == 0


def test_a_finished_run_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = make_run(tmp_path, controller_journal(), DONE)
    runs = RunList(tmp_path)
    before = runs.look()
    monkeypatch.setattr(follower.RunPoller, "look", None)  # whoever reads again fails
    assert runs.look().entries[0] is before.entries[0]
    assert layout.journal.exists()


def test_a_run_that_is_resumed_is_read_again(tmp_path: Path) -> None:
    journal = controller_journal()
    layout = make_run(
        tmp_path, journal, [agent_started(), started(), ended(outcome="failed"), finished("FAILED")]
    )
    runs = RunList(tmp_path)
    assert runs.look().entries[0].state is RunState.FAILED
    with layout.journal.open("a") as file:
        file.write(line(event("resumed", 110.0, finished=1)))
    # a new life in which nothing was started
    view = runs.look().entries[0].view
    assert view is not None
    assert "before it started" in view.why


def test_a_run_that_nobody_ended_is_read_again_when_its_agent_writes(tmp_path: Path) -> None:
    layout = make_run(tmp_path, controller_journal(), running_run())
    runs = RunList(tmp_path)
    assert runs.look().entries[0].state is RunState.LOST
    with layout.node("localhost").journal.open("a") as file:
        file.write(line(ended()) + line(finished()))
    assert runs.look().entries[0].state is RunState.SUCCEEDED


def test_progress_and_a_curve_of_the_loss_come_with_it(tmp_path: Path) -> None:
    layout = make_run(tmp_path, controller_journal(), DONE)
    write_rows(layout.root, [(step, {"loss": 10.0 - step, "step_time": 0.1}) for step in range(10)])
    entry = RunList(tmp_path).look().entries[0]
    assert entry.progress is not None
    assert (entry.progress.step, entry.progress.loss) == (9, 1.0)
    shown = [value for value in entry.loss_curve if not math.isnan(value)]
    assert shown == sorted(shown, reverse=True)
    assert (shown[0], shown[-1]) == (10.0, 1.0)


def test_a_curve_passes_over_infinities(tmp_path: Path) -> None:
    """A column that has both of them has no middle; nor does looking for it warn."""
    layout = make_run(tmp_path, controller_journal(), DONE)
    losses = [math.inf if step % 2 else -math.inf for step in range(2000)] + [1.0] * 200
    write_rows(layout.root, [(step, {"loss": loss}) for step, loss in enumerate(losses)])
    curve = RunList(tmp_path).look().entries[0].loss_curve
    assert {value for value in curve if not math.isnan(value)} == {1.0}


def test_a_loss_that_is_no_number_does_not_look_like_a_change(tmp_path: Path) -> None:
    layout = make_run(tmp_path, controller_journal(), running_run())
    write_rows(layout.root, [(1, {"loss": math.nan})])
    seen = [RunList(tmp_path).look(), RunList(tmp_path).look()]
    assert seen[0] == seen[1]


def test_what_cannot_be_read_is_listed_with_the_reason(tmp_path: Path) -> None:
    layout = make_run(tmp_path, controller_journal(), DONE)
    layout.journal.write_text(line(event("created"), version=99))
    entry = RunList(tmp_path).look().entries[0]
    assert entry.is_unreadable
    assert "newer Torchdeck" in entry.why


def test_a_change_of_the_notes_is_seen(tmp_path: Path) -> None:
    runs = RunList(tmp_path)
    assert runs.look().notes == 0
    Home(tmp_path).notes.write_text("{}")
    before = runs.look()
    assert before == runs.look()
    os.utime(Home(tmp_path).notes, ns=(1, 1))
    assert runs.look() != before


def test_a_removed_run_leaves_the_list(tmp_path: Path) -> None:
    layout = make_run(tmp_path, controller_journal(), running_run())
    runs = RunList(tmp_path)
    assert runs.look().entries
    shutil.rmtree(layout.root)
    assert runs.look().entries == ()


def test_many_runs_are_read_over_several_looks_the_newest_first(tmp_path: Path) -> None:
    for run_id in IDS:
        make_run(tmp_path, controller_journal(), DONE, run_id=run_id)
    runs = RunList(tmp_path, budget=0.0)
    looks = [runs.look() for _ in IDS]
    assert [seen.unread for seen in looks] == [2, 1, 0]
    assert [entry.view is not None for entry in looks[0].entries] == [True, False, False]
    assert all(entry.view is not None for entry in looks[-1].entries)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_listed_raises(tmp_path: Path) -> None:
    make_run(tmp_path, controller_journal(), DONE)
    (tmp_path / "runs").chmod(0)
    try:
        with pytest.raises(PermissionError):
            RunList(tmp_path).look()
    finally:
        (tmp_path / "runs").chmod(0o700)
