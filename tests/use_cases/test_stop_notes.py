"""Progress messages of `torchdeck runs stop`."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.values.histories import created, running_run
from support.values.made_runs import make_run
from torchdeck.quantities import moment
from torchdeck.runs.follower import read_run
from torchdeck.runs.links import LOST, UP, Links, LinkState
from torchdeck.runs.node_troubles import LATE, NodeTrouble, TroubleKind
from torchdeck.runs.run_state import RunState
from torchdeck.runs.view import RunView
from torchdeck.use_cases.stop import AFTER, StopNotes, waits_for

NOW = 1_000.0
LINKS = Links(NOW, {"a": LinkState("a", UP), "b": LinkState("b", LOST, why="no route to host")})
HOW = "stopped by the user: the ranks finish the step, save and exit"


@pytest.fixture
def view(tmp_path: Path) -> RunView:
    found = read_run(make_run(tmp_path, [created()], running_run()))
    return replace(found, state=RunState.RUNNING, controller_alive=True)


def test_it_names_what_is_waited_for(view: RunView) -> None:
    """The controller, the request, the ranks, nodes that are not reached, ranks without a leader."""
    assert waits_for(replace(view, controller_alive=False), None, NOW).endswith(
        "controller of the run to start"
    )
    assert waits_for(view, None, NOW).endswith("it has not taken the request yet")
    stopping = replace(view, state=RunState.STOPPING, why=HOW)
    assert waits_for(stopping, None, NOW) == f"waiting for the run to end: {HOW}"
    assert waits_for(stopping, LINKS, NOW).endswith("; not reached: b (no route to host)")
    assert waits_for(stopping, LINKS, NOW + 60).endswith(HOW), "a controller that is gone has written it"
    late = NodeTrouble("a", TroubleKind.AGENT, LATE, NOW - 60, "no sign of the agent")
    told = waits_for(replace(stopping, troubles=(late,)), LINKS, NOW)
    assert f"; the agent on a has given no sign of life since {moment(NOW - 60)} (" in told
    alone = replace(view, state=RunState.FAILED, nodes_alone=("b",))
    assert "ranks to end on b" in waits_for(alone, LINKS, NOW)


def test_it_says_each_thing_once_and_nothing_of_what_is_short(view: RunView) -> None:
    said, now = list[str](), [0.0]
    notes = StopNotes(said.append, lambda: now[0])
    notes.look(view, None)
    assert said == []
    now[0] = AFTER
    stopping = replace(view, state=RunState.STOPPING, why=HOW)
    for each in (view, view, stopping, stopping):
        notes.look(each, None)
    assert [text.rpartition(": ")[2] for text in said] == [
        "it has not taken the request yet",
        "the ranks finish the step, save and exit",
    ]
