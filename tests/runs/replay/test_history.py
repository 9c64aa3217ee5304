"""A history fed as a run continues, and one read from its files afterwards."""

from __future__ import annotations

from itertools import pairwise

import pytest

from support.values.histories import (
    ALIVE,
    DEAD,
    agent_started,
    controller_journal,
    ended,
    event,
    failure,
    finished,
    fold,
    started,
)
from torchdeck.contract.journal import Event
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.run_state import Liveness
from torchdeck.runs.view import view

CREATED, CONTROLLED = controller_journal()
STORY: list[tuple[str, Event]] = [
    ("controller", CREATED),
    ("controller", CONTROLLED),
    ("node", agent_started()),
    ("node", started()),
    ("node", event("running", 102.0, attempt=1)),
    ("node", event("checkpoint", 102.5, step=4, path="/c/step_00000004")),
    ("controller", event("request", 102.6, id="1", kind="stop", origin="terminal")),
    ("node", event("request", 102.7, id="1", kind="stop")),
    ("node", event("stopping", 102.8, kind="graceful", why="user", request="1")),
    ("node", ended(1, "stopped")),
    ("node", finished("CANCELLED", resumable=True)),
    ("controller", event("controller_ended", 105.5)),
    ("controller", event("resumed", 110.0, finished=1)),
    ("controller", event("controller_started", 110.1, identity=None, epoch=2)),
    ("node", agent_started(110.2)),
    ("node", started(2, 110.5, resume="/c/step_00000004", resume_step=4)),
    ("node", event("running", 111.0, attempt=2)),
    ("node", ended(2, "failed", failure(0))),
    ("node", finished("FAILED", 112.0, resumable=True)),
    ("controller", event("resumed", 120.0, finished=2)),
    ("controller", event("transport_failed", 121.0, node="localhost", why="no python")),
    ("controller", event("resumed", 130.0, finished=2)),
    ("node", agent_started(130.5)),
    ("node", started(3, 131.0)),
    ("node", ended(3)),
    ("node", finished("SUCCEEDED", 133.0)),
]
"""A run that is stopped, resumed, fails, cannot be resumed at first, and succeeds in the end."""


@pytest.mark.parametrize("liveness", [ALIVE, DEAD])
def test_following_and_reading_afterwards_agree(liveness: Liveness) -> None:
    """At every moment, a history fed in true order gives the view that the two files give."""
    history = RunHistory()
    for count, (writer, item) in enumerate(STORY, 1):
        if writer == "node":
            history.node_event("localhost", item)
        else:
            history.controller_event(item)
        files = {
            name: [found for writer, found in STORY[:count] if writer == name]
            for name in ("controller", "node")
        }
        followed = view("r", history, {}, liveness, 1000.0)
        assert followed == fold(
            "r", files["controller"], {"localhost": files["node"]}, {}, liveness, 1000.0
        ), item


def test_each_life_ends_as_it_did() -> None:
    """The story's three ends are CANCELLED, FAILED and SUCCEEDED, each until the next resume."""
    history, states = RunHistory(), []
    for writer, item in STORY:
        if writer == "node":
            history.node_event("localhost", item)
        else:
            history.controller_event(item)
        states.append(view("r", history, {}, ALIVE, 1000.0).state.value)
    changes = [states[0], *(after for before, after in pairwise(states) if before != after)]
    assert changes == [
        "PENDING",
        "PREPARING",
        "STARTING",
        "RUNNING",
        "STOPPING",
        "CANCELLED",
        "PENDING",
        "PREPARING",
        "STARTING",
        "RUNNING",
        "FAILED",
        "PENDING",
        "PREPARING",
        "STARTING",
        "SUCCEEDED",
    ]
