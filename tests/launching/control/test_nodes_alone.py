"""Nodes whose ranks continue after the end of their run, by values; real hosts do it in test_run_unled."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from support.agents.gang_run import make_gang_plan
from support.values.histories import (
    agent_started,
    controller_journal,
    created,
    ended,
    event,
    finished,
    started,
)
from support.values.made_runs import line, make_run
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import SmallerSize
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching import taking_over
from torchdeck.launching.control.leaderless_nodes import Alone, nodes_alone, seen_alone
from torchdeck.launching.launcher import LaunchError
from torchdeck.launching.taking_over import NotResumableError, RequestCarrier, resume
from torchdeck.runs.follower import read_run
from torchdeck.runs.links import LOST, UP, Links, LinkState, write_links
from torchdeck.use_cases import stop as stopping
from torchdeck.use_cases.ui import QuietUi


def follow(layout: RunLayout, said: list[tuple[str, str]]) -> None:
    """The second node's journal: what it says of its leader."""
    follower = event("agent_started", 100.6, identity=None, part="follower", life=1)
    told = [event(name, 104.5, unattended=what, why="over", attempt=1) for name, what in said]
    layout.node("beta").root.mkdir()
    layout.node("beta").journal.write_text("".join(map(line, [follower, *told])))


@pytest.mark.parametrize(
    ("said", "alone"),
    [
        ([("lead_lost", "continue")], ("beta",)),
        ([("lead_lost", "stop")], ()),
        ([("lead_lost", "continue"), ("lead_back", "")], ()),
        ([("lead_lost", "continue"), ("node_finished", "")], ()),
        ([], ()),
    ],
)
def test_ranks_go_on_alone_until_their_node_says_otherwise(
    tmp_path: Path, said: list[tuple[str, str]], alone: tuple[str, ...]
) -> None:
    leader = [agent_started(), started(), ended(outcome="failed"), finished("FAILED")]
    layout = make_run(tmp_path, controller_journal(), leader)
    follow(layout, said)
    assert read_run(layout).is_over
    assert nodes_alone(layout) == alone


UP_ALIVE = LinkState("beta", UP, agent_alive=True, holder_alive=True, torchrun_alive=True)
UP_DEAD = LinkState("beta", UP, agent_alive=False, holder_alive=False, torchrun_alive=False)


@pytest.mark.parametrize(
    ("state", "late", "seen"),
    [
        (UP_ALIVE, 0.0, Alone(living=("beta",))),
        (replace(UP_DEAD, torchrun_alive=True), 0.0, Alone(living=("beta",))),
        (UP_DEAD, 0.0, Alone()),
        (UP_DEAD, 60.0, Alone(untold=("beta",))),
        (replace(UP_DEAD, state=LOST), 0.0, Alone(untold=("beta",))),
        (LinkState("beta", UP), 0.0, Alone(untold=("beta",))),
    ],
)
def test_what_links_say_of_them(state: LinkState, late: float, seen: Alone) -> None:
    assert seen_alone(("beta",), Links(100.0, {"beta": state}), 100.0 + late) == seen


def failed_run(folder: Path, state: LinkState, smaller: tuple[SmallerSize, ...]) -> RunLayout:
    """Its second node continues alone, with a link like that; this process stands for its controller."""
    plan = replace(make_gang_plan(["true"], folder), smaller=smaller)
    here = ProcessIdentity.of(os.getpid())
    assert here is not None
    begun = event("controller_started", 100.1, identity=here.to_json(), epoch=1)
    over = finished("FAILED", resumable=True, checkpoint="c")
    leader = [agent_started(), started(), ended(outcome="failed"), over]
    layout = make_run(folder / "home", [created(), begun], leader, plan=plan.document())
    follow(layout, [("lead_lost", "continue")])
    write_links(layout, {"beta": state}, time.time())
    return layout


@pytest.mark.parametrize(
    ("state", "smaller", "refused"),
    [
        (UP_ALIVE, (), "`torchdeck runs stop"),
        (UP_ALIVE, (SmallerSize(1, 1, None, 1, {}),), "`torchdeck runs stop"),
        (replace(UP_ALIVE, state=LOST), (), "resume when it is back, or start a run without it"),
        (replace(UP_ALIVE, state=LOST), (SmallerSize(1, 1, None, 1, {}),), "resume when it is back"),
    ],
)
def test_no_other_life_begins_beside_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: LinkState,
    smaller: tuple[SmallerSize, ...],
    refused: str,
) -> None:
    """The node is said to live, or no one knows: a life begins with all nodes, so a range changes nothing."""
    layout = failed_run(tmp_path, state, smaller)
    monkeypatch.setattr(taking_over, "TOLD_LIMIT", 0.1)
    with pytest.raises(NotResumableError, match=refused):
        resume(layout, "test")
    assert "resumed" not in layout.journal.read_text()


def test_what_is_gone_is_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = failed_run(tmp_path, UP_DEAD, ())
    monkeypatch.setattr(taking_over, "TOLD_LIMIT", 0.1)
    said = list[str]()
    taking_over._check_alone(layout, dict, said.append)
    assert said == ["waiting for beta to report whether ranks still run there, 0 s at most"]


def test_a_stop_waits_no_longer_for_a_node_that_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says for which: the leader was this machine, of which there is no link."""
    layout = failed_run(tmp_path, replace(UP_ALIVE, state=LOST), ())
    monkeypatch.setattr(stopping, "TOLD_LIMIT", 0.1)
    notes: list[str] = []
    found = stopping._wait(layout, RequestCarrier(layout).look, QuietUi(note=notes.append), now=False)
    assert found.is_over
    assert "node beta could not be reached" in notes[0]


def test_a_stop_waits_no_longer_for_ranks_that_do_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = failed_run(tmp_path, UP_ALIVE, ())
    monkeypatch.setattr(stopping, "ALONE_LIMIT", 0.1)
    notes: list[str] = []
    stopping._wait(layout, RequestCarrier(layout).look, QuietUi(note=notes.append), now=False)
    assert "for ranks on node beta to end" in notes[0]


def test_one_controller_is_started_for_a_node_that_is_off_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = failed_run(tmp_path, replace(UP_ALIVE, state=LOST), ())
    started: list[RunLayout] = []
    monkeypatch.setattr(taking_over, "CARRY_DELAY", 0.0)
    monkeypatch.setattr(taking_over, "ensure_controller", lambda run, _logins: started.append(run))
    carrier = RequestCarrier(layout)
    found = replace(read_run(layout), controller_alive=False)
    carrier.look(found)
    with pytest.raises(LaunchError, match="node beta did not answer in time"):
        carrier.look(found)
    assert started == [layout]
