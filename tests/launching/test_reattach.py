"""How often a run was resumed, read from what its leader has journaled."""

import os
import signal
from pathlib import Path

import pytest

from support.links.linked import linked
from support.waiting import wait_until
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.reattach import _caught_up, _resumes


@pytest.mark.parametrize(
    ("events", "lives"),
    [
        (["agent_started", "launching", "attempt_started"], []),
        (["launching", "attempt_started", "finished"], []),
        (["attempt_started", "finished", "agent_started"], []),
        (["attempt_started", "finished", "agent_started", "launching", "attempt_started"], [1]),
        (["launching", "finished", "launching", "finished", "attempt_started", "finished"], [1, 2]),
    ],
)
def test_each_life_after_an_end_was_a_resumption(tmp_path: Path, events: list[str], lives: list[int]) -> None:
    layout = RunLayout(tmp_path)
    layout.node("n1").root.mkdir(parents=True)
    with JournalWriter(layout.node("n1").journal) as journal:
        for event in events:
            journal.append(event, durable=False)
    assert _resumes(layout, "n1") == lives


class NotWantedError(Exception):
    """Whoever waited does not want it any more."""


@pytest.mark.processes
def test_a_wait_for_a_node_that_has_gone_silent_can_be_given_up(tmp_path: Path) -> None:
    """Its limit is ten minutes; a node's end that is stalled answers nothing."""
    with linked(tmp_path) as run:
        link = run.up()
        assert _caught_up(link, lambda: None)
        os.kill(run.streams[-1].process.pid, signal.SIGSTOP)
        looks = 0

        def check() -> None:
            nonlocal looks
            looks += 1
            if looks > 5:
                raise NotWantedError

        with pytest.raises(NotWantedError):
            _caught_up(link, check)
        wait_until(lambda: not link._thread.is_alive(), 30, "the link to be given up")
