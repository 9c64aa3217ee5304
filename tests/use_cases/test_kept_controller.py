"""Whoever watches a run starts its controller again, by values and with a real one."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from support.agents.agent_run import make_plan, script
from support.agents.controlled_run import controller_events, new_run, wait_for_state
from support.values.histories import created, running_run
from support.values.made_runs import make_run
from support.waiting import wait_until
from torchdeck.agent.processes.detached_process import DetachedProcess
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.launcher import start_controller
from torchdeck.runs.follower import read_run
from torchdeck.runs.run_state import RunState
from torchdeck.runs.view import RunView
from torchdeck.use_cases.kept_controller import FIRST_DELAY, LAST_DELAY, STEADY, KeptController


class Started:
    """Stands for a process that was started."""

    def exit_code(self) -> int | None:
        return None


class Kept:
    """A controller that is kept, with a clock of its own."""

    def __init__(self, layout: RunLayout) -> None:
        self.now, self.starts = 0.0, 0
        self.view = replace(read_run(layout), state=RunState.RUNNING)
        self.kept = KeptController(layout, clock=lambda: self.now, start=self._start)

    def _start(self, *_args: object) -> DetachedProcess:
        self.starts += 1
        return cast("DetachedProcess", Started())

    def look(self, *, alive: bool, after: float = 0.0) -> bool:
        self.now += after
        return self.kept.look(replace(self.view, controller_alive=alive))


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(make_run(tmp_path, [created()], running_run()))


def test_one_that_was_killed_is_started_again_after_a_moment(kept: Kept) -> None:
    assert not kept.look(alive=True)
    assert not kept.look(alive=False, after=1.0)
    assert not kept.look(alive=False, after=FIRST_DELAY - 0.1)
    assert kept.look(alive=False, after=0.2)
    assert not kept.look(alive=False, after=0.2), "it takes a moment to show itself"


def test_one_that_was_never_there_is_not_started(kept: Kept) -> None:
    """Attaching to a run is a person's wish."""
    assert not any(kept.look(alive=False, after=100.0) for _ in range(5))


def test_one_that_ends_again_at_once_is_tried_less_and_less_often(kept: Kept) -> None:
    kept.look(alive=True)
    for _ in range(3600):
        kept.look(alive=False, after=1.0)
    assert 3600 / LAST_DELAY <= kept.starts < 3600 / LAST_DELAY + 8
    kept.look(alive=True)
    kept.look(alive=True, after=STEADY + 1)
    kept.look(alive=False, after=1.0)
    assert kept.look(alive=False, after=FIRST_DELAY)


def test_a_run_that_is_over_needs_none(kept: Kept) -> None:
    kept.look(alive=True)
    kept.view = replace(kept.view, state=RunState.SUCCEEDED)
    assert not any(kept.look(alive=False, after=100.0) for _ in range(5))


def test_a_lost_run_gets_one_until_its_nodes_have_answered(kept: Kept) -> None:
    """Also after this machine was off; one that ends at once again and again is not started for ever."""
    kept.view = replace(kept.view, state=RunState.LOST, unfenced=("a",))
    assert not kept.look(alive=False)
    assert kept.look(alive=False, after=FIRST_DELAY)
    assert not any(kept.look(alive=True, after=10.0) for _ in range(20))
    assert sum(kept.look(alive=False, after=100.0) for _ in range(100)) < 10
    kept.view = replace(kept.view, unfenced=())
    assert not any(kept.look(alive=False, after=100.0) for _ in range(5))


@pytest.mark.processes
@pytest.mark.usefixtures("home")
def test_a_controller_that_was_killed_is_there_again(tmp_path: Path) -> None:
    """The run continues meanwhile; another epoch has it then."""
    layout = new_run(make_plan(script(tmp_path, "import time; time.sleep(600)"), tmp_path))
    first = start_controller(layout)
    view = wait_for_state(layout, "RUNNING")
    kept = KeptController(layout)
    assert not kept.look(view)
    os.kill(first.pid, signal.SIGKILL)
    first.wait(20)

    def started() -> bool:
        seen: RunView = read_run(layout)
        return kept.look(seen)

    wait_until(started, 30, "another controller to be started")
    wait_until(lambda: read_run(layout).controller_alive, 60, "it to have the run")
    assert len(controller_events(layout, "controller_started")) == 2
