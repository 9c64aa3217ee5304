"""Following a run directory as it grows, and whose processes are alive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.values.histories import controller_journal, ended, event, finished, running_run, started
from support.values.made_runs import IDS, line, make_run
from support.waiting import wait_until
from torchdeck.contract.journal import Event, JournalWriter, NewerFormatError
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.runs.follower import RunFollower, read_run
from torchdeck.runs.run_state import RunState


def test_what_is_appended_is_seen_at_the_next_look(tmp_path: Path) -> None:
    """A follower reads on where it was, across journals that appear later."""
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    layout = make_run(
        tmp_path, [*controller_journal(), event("controller_started", identity=me.to_json(), epoch=2)]
    )
    follower = RunFollower(layout)
    assert follower.refresh().state is RunState.PENDING
    with JournalWriter(layout.node("localhost").journal) as journal:
        journal.append("agent_started", identity=me.to_json(), adopted=False)
        assert follower.refresh().state is RunState.PREPARING
        journal.append("attempt_started", **started().fields)
        assert follower.refresh().state is RunState.STARTING
        journal.append("finished", **finished("FAILED").fields)
    assert follower.refresh().state is RunState.FAILED


def test_processes_of_an_earlier_boot_are_dead(tmp_path: Path) -> None:
    """Identities of another boot are no one, even where a process has their pid now."""
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    before = {**me.to_json(), "boot": "another"}
    journal = [event("controller_started", identity=before, epoch=1)]
    node = [event("agent_started", identity=before), started(holder=before), event("running", attempt=1)]
    view = read_run(make_run(tmp_path, journal, node))
    assert view.state is RunState.LOST
    assert "power cut" in view.why


@pytest.mark.processes
def test_a_dead_agent_is_seen_and_an_orphan_found_by_its_environment(tmp_path: Path) -> None:
    """With all named processes dead, a rank that carries the run's id keeps the run RUNNING until it dies."""
    run_id = (
        f"{IDS[0][:-6]}{os.getpid() % 2**24:06x}"  # other tests have runs of one id, and nothing that lives
    )
    rank = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={"TORCHDECK_RUN_ID": run_id}
    )
    try:
        layout = make_run(tmp_path, controller_journal(), running_run(), run_id=run_id)
        wait_until(lambda: read_run(layout).state is RunState.RUNNING, 5, "the orphan to be seen")
    finally:
        rank.send_signal(signal.SIGKILL)
        rank.communicate()
    assert read_run(layout).state is RunState.LOST


@pytest.mark.parametrize(
    ("codes", "events", "state", "why"),
    [
        ((0, 0), [], RunState.SUCCEEDED, "attempt 1 succeeded"),
        ((0, None), [], RunState.LOST, "during the run"),
        ((143, 3), [], RunState.FAILED, "rank 1 failed with exit code 3"),
        ((137, 143), [], RunState.FAILED, "rank 0 was ended by SIGKILL"),
        ((143, 143), [event("stopping", kind="now", why="user")], RunState.CANCELLED, "stopped"),
        ((0, 0), [event("stopping", kind="graceful", why="disk")], RunState.FAILED, "failed"),
    ],
)
def test_a_run_whose_ranks_have_all_ended_is_not_lost(
    tmp_path: Path, codes: tuple[int | None, ...], events: list[Event], state: RunState, why: str
) -> None:
    """Agent and shim are gone and wrote nothing: what the ranks' own exit files say counts."""
    layout = make_run(tmp_path, controller_journal(), [*running_run(), *events])
    for rank, code in enumerate(codes):
        folder = layout.attempt(1).rank(rank).root
        folder.mkdir(parents=True)
        if code is not None:
            (folder / "exit").write_text(f"{code}\n")
    found = read_run(layout)
    assert found.state is state
    assert why in found.why


def test_exit_files_count_for_a_run_that_was_given_up(tmp_path: Path) -> None:
    """The leader's machine was switched off before its journal arrived, but not the exits of its ranks."""
    given_up = event("lost", 300.0, state="LOST", why="gone", life=0, nodes=[])
    layout = make_run(tmp_path, [*controller_journal(), given_up], running_run())
    for rank in range(2):
        assert read_run(layout).state is RunState.LOST
        folder = layout.attempt(1).rank(rank).root
        folder.mkdir(parents=True)
        (folder / "exit").write_text("0\n")
    assert read_run(layout).state is RunState.SUCCEEDED


def test_exit_files_of_a_foreign_run_are_read_with_care(tmp_path: Path) -> None:
    """Pipes, long numbers, names that are no ranks: the run is lost, as without them."""
    layout = make_run(tmp_path, controller_journal(), running_run())
    ranks = layout.attempt(1).ranks
    for name in ("0", "1", "x", "99999999999", "²"):
        (ranks / name).mkdir(parents=True)
    os.mkfifo(ranks / "0/exit")
    (ranks / "1/exit").write_text("9" * 10_000)
    assert read_run(layout).state is RunState.LOST


def test_newer_node_journal_is_refused(tmp_path: Path) -> None:
    """A run that a newer Torchdeck took over in the middle is refused, not misread."""
    layout = make_run(tmp_path, controller_journal(), [*running_run(), ended()])
    follower = RunFollower(layout)
    follower.refresh()
    with layout.node("localhost").journal.open("a") as file:
        file.write(line(finished(), version=99))
    with pytest.raises(NewerFormatError, match="update Torchdeck"):
        follower.refresh()


def test_the_evidence_of_a_hang_is_named_with_its_whole_path(tmp_path: Path) -> None:
    """Whoever reads the sentence need not know which directory is meant: while it hangs and after a stop."""
    said = {"kind": "elsewhere", "examination": "1", "detail": "Rank 1 is in train.py:84."}
    hang = event("hang", 102.5, attempt=1, rank=1, still=34.0, limit=30.0, **said)
    stop = event("stopping", 103.0, kind="now", why="user")
    end = [ended(1, "stopped"), finished("CANCELLED")]
    layout = make_run(tmp_path, controller_journal(), [*running_run(), hang, stop, *end])
    (note,) = read_run(layout).warnings
    assert note.endswith(f"Evidence: {layout.attempt(1).root / 'examinations/1'}")
