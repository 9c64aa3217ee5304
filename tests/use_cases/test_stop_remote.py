"""Stopping a run whose nodes need a password, or do not answer: by values, without any node."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from support.values import machines
from support.values.histories import controller_journal, event, started
from support.values.made_runs import line, make_run
from torchdeck.agent.processes.detached_process import DetachedProcess
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching import taking_over
from torchdeck.launching.taking_over import TOLD_LIMIT
from torchdeck.nodes.connector import Connector
from torchdeck.runs.links import LOST, NEEDS_LOGIN, UP, LinkState, write_links
from torchdeck.use_cases.stop import StopRequest, stop
from torchdeck.use_cases.ui import QuietUi

LOGINS = {"passwords": "what the user typed"}


class Started:
    """Stands for a controller that was started."""

    pid = 1

    def exit_code(self) -> int | None:
        return None


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """The logins of each controller that is started; every question for them is answered."""
    found: list[Mapping[str, Any]] = []

    def start(_layout: RunLayout, *, logins: Mapping[str, Any], first: bool = True) -> DetachedProcess:
        del first
        found.append(logins)
        return cast("DetachedProcess", Started())

    def gather(_layout: RunLayout, _reach: Connector) -> Mapping[str, Any]:
        return LOGINS

    monkeypatch.setattr(taking_over, "start_controller", start)
    monkeypatch.setattr("torchdeck.use_cases.ui.gather_logins", gather)
    return found


def run_of(home: Path, *journal: Any, alive: bool) -> RunLayout:
    """A run on nodes `a` and `b` that has begun; whether its controller is alive."""
    myself = ProcessIdentity.of(1)
    assert myself is not None
    controller = [event("controller_started", identity=myself.to_json(), epoch=1)] if alive else []
    settings = machines.config(distributed={"nodes": ["a", "b"]})
    plan = machines.plan(settings, machines.node("a"), machines.node("b"))
    layout = make_run(home, [*controller_journal(), *controller, *journal], plan=plan.document())
    layout.node("localhost").journal.unlink()
    layout.node("localhost").inbox.rmdir()
    layout.node("localhost").root.rmdir()
    for name, part in (("a", "lead"), ("b", "follower")):
        layout.node(name).root.mkdir()
        said = [event("agent_started", 100.6, identity=None, part=part, life=0), started()]
        layout.node(name).journal.write_text("".join(map(line, said)))
    return layout


def links(layout: RunLayout, state: str, since: float) -> None:
    now = time.time()
    states = {name: LinkState(name, state, since=now - since, why="no answer") for name in ("a", "b")}
    write_links(layout, states, now)


@pytest.mark.parametrize(
    ("state", "alive", "asked"), [(NEEDS_LOGIN, True, 1), (UP, True, 0), (LOST, False, 1)]
)
def test_a_controller_without_the_password_of_a_node_is_replaced(
    tmp_path: Path, starts: list[Mapping[str, Any]], state: str, *, alive: bool, asked: int
) -> None:
    """It cannot ask, so the stop would wait for a node that nobody logs in to."""
    layout = run_of(tmp_path, alive=alive)
    links(layout, state, 1.0)
    stop(StopRequest(layout, "terminal", wait=False), QuietUi())
    assert starts == [LOGINS] * asked


def test_what_is_left_of_a_lost_run_is_ended_with_the_password_of_its_node(
    tmp_path: Path, starts: list[Mapping[str, Any]]
) -> None:
    lost = event("lost", 300.0, state="LOST", why="gone", life=0, nodes=["a"])
    layout = run_of(tmp_path, lost, alive=False)
    stopped = stop(StopRequest(layout, "terminal", wait=False), QuietUi())
    assert starts == [LOGINS]
    assert "anything still running on a is ended when it answers" in stopped.said


class WaitingUi(QuietUi):
    """Counts how often it is asked whether to wait on."""

    waits = 0

    def check(self) -> None:
        self.waits += 1


def test_a_stop_with_checkpoint_ends_though_no_node_is_reached(tmp_path: Path) -> None:
    layout = run_of(tmp_path, alive=True)
    notes: list[str] = []
    links(layout, LOST, TOLD_LIMIT + 1)
    ui = WaitingUi(note=notes.append)
    stopped = stop(StopRequest(layout, "terminal", ask=False), ui)
    assert ui.waits == 0
    assert stopped.unstopped == "nothing was stopped: it continues"
    assert any(f"a, b did not answer for {TOLD_LIMIT:.0f} s" in note for note in notes), notes
    assert any("torchdeck runs stop --now" in note for note in notes), notes
