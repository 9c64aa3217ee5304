"""What is said of a run whose nodes are reached over links, by values."""

from dataclasses import replace
from typing import Any

import pytest

from torchdeck.contract.journal import Event
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.runs.follower import look
from torchdeck.runs.links import CONNECTING, LOST, NEEDS_LOGIN, UP, Links, LinkState
from torchdeck.runs.node_troubles import TroubleKind, unheard
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.run_state import Liveness, NodeLiveness, RunState
from torchdeck.runs.view import RunView, view

NOW = 1_000.0
ELSEWHERE = ProcessIdentity(7, 8, "the boot of another machine")


def seen(
    link: LinkState, *, written: float = NOW, heartbeat: dict[str, Any] | None = None, **created: Any
) -> RunView:
    """A run with one remote node, b, whose agent was started there."""
    history = RunHistory()
    fields = {"run_id": "r", "name": "r", "world_size": 1, **created}
    history.controller_event(Event("created", NOW - 100, 0.0, fields))
    fields = {"identity": ELSEWHERE.to_json(), "adopted": False}
    history.node_event("b", Event("agent_started", NOW - 90, 0.0, fields))
    history.node_event("b", Event("attempt_started", NOW - 80, 0.0, {"attempt": 1}))
    history.node_event("b", Event("running", NOW - 70, 0.0, {"attempt": 1}))
    beats = {"b": heartbeat or {}}
    liveness = look("r", history, beats, Links(written, {"b": link}), NOW)
    return view("r", history, beats, liveness, NOW)


def up(**changes: Any) -> LinkState:
    alive = {"agent_alive": True, "holder_alive": True, "torchrun_alive": True}
    return LinkState("b", **{"state": UP, "since": NOW - 90, "heard": NOW, **alive, **changes})


BEAT = {"t": NOW - 1, "attempt": 1, "ranks": {"0": {"phase": "training", "step": 840}}}


def test_a_node_that_is_heard_of_is_as_it_says() -> None:
    """Its processes are not looked for on this machine."""
    found = seen(up(), heartbeat=BEAT)
    assert (found.state, found.agent_alive, found.warnings) == (RunState.RUNNING, True, ())


def test_an_agent_that_is_gone_there_is_said() -> None:
    """As of this machine."""
    found = seen(up(agent_alive=False), heartbeat=BEAT)
    assert found.state is RunState.RUNNING
    assert found.warnings == ("the agent on b is gone; the ranks continue without it",)


def test_a_run_goes_on_while_its_link_is_lost() -> None:
    """Who was seen last is not dead; what was seen last is said."""
    found = seen(up(state=LOST, since=NOW - 12, heard=NOW - 22), heartbeat=BEAT)
    assert found.state is RunState.RUNNING
    assert found.warnings == ("node b: link lost 22 s ago, last seen step 840",)
    assert [(each.node, each.what, each.since) for each in found.troubles] == [
        ("b", TroubleKind.LINK, NOW - 22)
    ]
    assert found.troubles[0].over(NOW + 3) == "node b: link is back after 25 s"


def lost(seconds: float) -> LinkState:
    """A link whose node was last heard so long ago."""
    return up(state=LOST, since=NOW - seconds + 10, heard=NOW - seconds)


def test_a_run_without_any_node_says_what_ends_it() -> None:
    """After 2 × launch.node_grace, for it is not given up by itself."""
    assert len(seen(lost(239)).warnings) == 1, "the default of 120 s"
    told, _ = seen(lost(240)).warnings
    assert told == (
        "no node has answered for more than 240 s (2 × launch.node_grace): the run keeps its state, because "
        "the fault may be this machine's network. If its nodes are gone, `torchdeck runs stop --now` gives "
        "it up; with launch.lost_after a run becomes LOST by itself"
    )
    assert seen(lost(300)).warnings[0] == told, "it has no age: it is told once"
    assert len(seen(lost(29), node_grace=15.0).warnings) == 1
    told, _ = seen(lost(30), node_grace=15.0, lost_after=600.0).warnings
    assert told.endswith("gives it up, or wait until launch.lost_after (600 s) does so")


def test_one_node_that_answers_is_enough() -> None:
    """So is a part of the run on this machine; and a controller that is gone knows of none."""
    history = RunHistory()
    fields = {"identity": ELSEWHERE.to_json(), "part": "lead"}
    history.node_event("b", Event("agent_started", NOW - 900, 0.0, fields))
    away = NodeLiveness(link=lost(600), known=False)
    for other, told in (
        (away, 1),
        (NodeLiveness(agent=True), 0),
        (NodeLiveness(agent=True, link=up()), 0),
        (NodeLiveness(link=lost(100), known=False), 0),
    ):
        assert len(unheard(history, Liveness(True, {"b": away, "c": other}), NOW)) == told
    assert not any("node_grace" in each for each in seen(lost(600), written=NOW - 60).warnings)


def test_no_step_is_made_up_for_a_script_that_counts_none() -> None:
    """It stands at zero as long as nothing is said of it."""
    beat = {**BEAT, "ranks": {"0": {"phase": "", "step": 0}}}
    assert seen(up(state=LOST, since=NOW - 12), heartbeat=beat).warnings == ("node b: link lost 12 s ago",)


def test_nobody_follows_when_the_controller_is_gone() -> None:
    """An old links.json says nothing of now."""
    found = seen(up(), written=NOW - 60, heartbeat=BEAT)
    assert found.state is RunState.RUNNING
    assert "torchdeck runs attach" in found.warnings[0]
    assert found.followed_until == NOW - 60
    assert seen(up()).followed_until is None


def test_a_login_that_is_wanted_is_said() -> None:
    """With what is wanted."""
    found = seen(up(state=NEEDS_LOGIN, since=NOW - 3, why="node b: a password is wanted"))
    assert found.warnings == ("node b: needs login 3 s ago (node b: a password is wanted)",)


@pytest.mark.parametrize(("offset", "late"), [(0.0, True), (-60.0, False)])
def test_a_heartbeat_is_judged_by_the_nodes_clock(offset: float, late: bool) -> None:
    """A clock that is behind is no silence."""
    found = seen(up(clock_offset=offset), heartbeat={**BEAT, "t": NOW - 60})
    assert bool(found.warnings) is late


def test_a_node_that_is_not_reached_yet_is_said() -> None:
    """Not while that is only what takes some seconds."""
    assert seen(LinkState("b", CONNECTING, since=NOW - 3)).warnings == ()
    assert seen(LinkState("b", CONNECTING, since=NOW - 14)).warnings == ("node b: not reached for 14 s",)


def silent(*said: Event, ahead: float = 0.0) -> RunView:
    """A run of two nodes, whose lead, b, has said this of c; b's clock is `ahead` seconds ahead."""
    history = RunHistory()
    for node, part in (("b", "lead"), ("c", "follower")):
        fields = {"identity": ELSEWHERE.to_json(), "adopted": False, "part": part}
        history.node_event(node, Event("agent_started", NOW - 90, 0.0, fields))
    history.node_event("b", Event("attempt_started", NOW - 80, 0.0, {"attempt": 1}))
    for event in said:
        history.node_event("b", event)
    links = {"b": up(clock_offset=ahead), "c": replace(up(), node="c")}
    return view("r", history, {}, look("r", history, {}, Links(NOW, links), NOW), NOW)


def says(name: str, time: float, seconds: float, **fields: Any) -> Event:
    return Event(name, time, 0.0, {"node": "c", "seconds": seconds, **fields})


def test_nodes_that_have_given_the_leader_up_stay_named_with_what_ends_the_run() -> None:
    """Also after their agents have left: the leader may go on elsewhere, or never return."""
    history = RunHistory()
    for node, part in (("b", "lead"), ("c", "follower")):
        fields = {"identity": ELSEWHERE.to_json(), "adopted": False, "part": part}
        history.node_event(node, Event("agent_started", NOW - 90, 0.0, fields))
    history.node_event("b", Event("attempt_started", NOW - 80, 0.0, {"attempt": 1}))
    away = {"b": LinkState("b", LOST, since=NOW - 300), "c": replace(up(), node="c")}

    def warnings() -> str:
        return "; ".join(view("r", history, {}, look("r", history, {}, Links(NOW, away), NOW), NOW).warnings)

    history.node_event("c", Event("lead_lost", NOW - 20, 0.0, {"unattended": "stop", "seconds": 120.0}))
    assert "gave the leading node up" not in warnings()
    history.node_event("c", Event("node_finished", NOW - 10, 0.0, {"why": "silence", "may_return": True}))
    assert "c gave the leading node up and ended all ranks" in warnings()
    assert "`torchdeck runs stop --now` gives up the run" in warnings()
    history.node_event("c", Event("agent_started", NOW - 5, 0.0, {"identity": None, "part": "follower"}))
    assert "gave the leading node up" not in warnings()


def test_a_checkpoints_time_is_by_the_clock_of_this_machine() -> None:
    saved = Event("checkpoint", NOW - 5 + 60, 0.0, {"step": 5, "path": "/c/step_5"})
    found = silent(saved, ahead=60.0).checkpoint
    assert found is not None
    assert found.time == NOW - 5


def test_a_node_that_is_silent_to_the_others_is_said() -> None:
    """Since when, by the clock of this machine, and what comes of it, though it is reached from here."""
    flagged = says("node_silent", NOW - 7 + 60, 15.0, grace=120.0)
    text = "node c has been silent to the other nodes for 22 s (given up after 120 s)"
    found = silent(flagged, ahead=60.0)
    assert found.warnings == (text,)
    assert found.troubles[0].over(NOW) == "node c answers the others again after 22 s"
    assert silent(flagged, says("node_back", NOW + 60, 22.0), ahead=60.0).warnings == ()
    lost = says("node_lost", NOW - 1, 120.0, grace=120.0)
    assert silent(lost).warnings == (
        "node c has been silent to the other nodes for 121 s (after 120 s it was given up)",
    )
    assert "given up after launch.node_grace" in silent(says("node_silent", NOW, 15.0)).warnings[0]


def test_who_was_silent_is_forgotten_where_the_gang_begins_anew() -> None:
    """Without the node, or with a leader that begins to listen."""
    flagged = says("node_lost", NOW - 7, 15.0)
    assert silent(flagged, Event("launching", NOW, 0.0, {"attempt": 2, "nodes": ["b"]})).warnings == ()
    assert silent(flagged, Event("launching", NOW, 0.0, {"attempt": 2, "nodes": ["b", "c"]})).warnings
    again = {"identity": ELSEWHERE.to_json(), "part": "lead"}
    assert silent(flagged, Event("agent_started", NOW, 0.0, again)).warnings == ()


def test_logs_that_stay_on_a_node_are_said() -> None:
    """The disk of this machine is nearly full."""
    found = seen(up(held="logs"), heartbeat=BEAT)
    (said,) = found.warnings
    assert said == "this machine's disk is nearly full: logs of node b are not copied until there is room"
    assert found.troubles[0].over(NOW) == "logs of node b are copied here again"
