"""States of runs that the queue waits for."""

from __future__ import annotations

import pytest

from support.values.histories import (
    agent_started,
    controller_journal,
    ended,
    event,
    failure,
    finished,
    started,
)
from support.values.made_runs import IDS, line, make_run
from torchdeck.runs.follower import RunFollower
from torchdeck.runs.home import torchdeck_home
from torchdeck.use_cases.queue.known_runs import KnownRuns

FAILED = [
    agent_started(),
    started(),
    event("running", 102.0, attempt=1),
    ended(outcome="failed", first=failure()),
    finished("FAILED"),
]
RESUMED = [started(2, 201.0), ended(2), finished(at=205.0, attempt=2)]


def test_a_run_that_is_over_is_read_again_only_when_its_journals_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run that was resumed and succeeded is not FAILED for ever."""
    home = torchdeck_home()
    layout = make_run(home, controller_journal(), FAILED)
    runs = KnownRuns(home)
    first = runs.look([IDS[0]])[IDS[0]]
    assert first is not None
    assert first.state == "FAILED"
    with monkeypatch.context() as read:
        read.delattr(RunFollower, "refresh")
        assert runs.look([IDS[0]])[IDS[0]] == first
    with layout.journal.open("a") as journal:
        journal.write(line(event("resumed", 200.0, finished=1)))
    with layout.node("localhost").journal.open("a") as journal:
        journal.write("".join(map(line, RESUMED)))
    resumed = runs.look([IDS[0]])[IDS[0]]
    assert resumed is not None
    assert resumed.state == "SUCCEEDED"
