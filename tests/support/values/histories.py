"""Journals of runs by values, as controller and agent write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torchdeck.contract.journal import Event
from torchdeck.runs.links import UP, LinkState
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.replay.journal_damage import JournalDamage
from torchdeck.runs.run_state import Liveness, NodeLiveness
from torchdeck.runs.view import RunView, view

AGENT = {"pid": 11, "start_ticks": 1, "boot": "b"}
HOLDER = {"pid": 12, "start_ticks": 2, "boot": "b"}
CONTROLLER = {"pid": 10, "start_ticks": 0, "boot": "b"}

ALIVE = Liveness(controller=True, nodes={"localhost": NodeLiveness(agent=True, holder=True, torchrun=True)})
DEAD = Liveness(nodes={"localhost": NodeLiveness()})
POWER_CUT = Liveness(nodes={"localhost": NodeLiveness()}, same_boot=False)


def fold(
    run_id: str,
    journal: Iterable[Event],
    nodes: Mapping[str, Iterable[Event]],
    heartbeats: Mapping[str, Mapping[str, Any]],
    liveness: Liveness,
    now: float,
    damage: Sequence[JournalDamage] = (),
) -> RunView:
    """The view of a run with these events of its controller and of the agents by node."""
    history = RunHistory()
    for each in journal:
        history.controller_event(each)
    for node, events in nodes.items():
        for each in events:
            history.node_event(node, each)
    return view(run_id, history, heartbeats, liveness, now, damage)


def event(name: str, at: float = 100.0, /, **fields: Any) -> Event:
    return Event(name, at, at, fields)


def created(at: float = 100.0, **fields: Any) -> Event:
    return event(
        "created",
        at,
        run_id="r",
        name="gpt",
        world_size=2,
        kind="recipe",
        target="byte-gpt",
        strategy="ddp",
        fingerprint="f",
        cli_version="0",
        **fields,
    )


def controller_journal() -> list[Event]:
    return [created(), event("controller_started", 100.1, identity=CONTROLLER, epoch=1)]


def started(attempt: int = 1, at: float = 101.0, **fields: Any) -> Event:
    given = {"port": 1, "resume": "", "resume_step": None, "reason": "first", "holder": HOLDER, **fields}
    return event("attempt_started", at, attempt=attempt, **given)


def failure(rank: int = 1, **fields: Any) -> dict[str, Any]:
    given = {
        "code": 1,
        "signal": None,
        "message": "ValueError: x",
        "traceback": "Traceback\n  here",
        "time": 103.0,
    }
    return {"rank": rank, **given, **fields}


def ended(attempt: int = 1, outcome: str = "succeeded", first: dict[str, Any] | None = None) -> Event:
    return event("attempt_ended", 104.0, attempt=attempt, outcome=outcome, first_failure=first, killed=0)


def finished(state: str = "SUCCEEDED", at: float = 105.0, **fields: Any) -> Event:
    given = {"why": "all ranks finished", "resumable": False, "checkpoint": "", "attempt": 1, **fields}
    return event("finished", at, state=state, **given)


def agent_started(at: float = 100.5, *, adopted: bool = False) -> Event:
    return event("agent_started", at, identity=AGENT, adopted=adopted)


def running_run() -> list[Event]:
    """The agent's journal of a run in mid-training."""
    return [agent_started(), started(), event("running", 102.0, attempt=1)]


def folded(
    node: list[Event],
    liveness: Liveness = ALIVE,
    *,
    journal: list[Event] | None = None,
    now: float = 110.0,
    beat: dict[str, Any] | None = None,
    damage: Sequence[JournalDamage] = (),
) -> RunView:
    """The view of a run on this machine with these events of its agent."""
    events = controller_journal() if journal is None else journal
    return fold("r", events, {"localhost": node}, {"localhost": beat or {}}, liveness, now, damage)


def clock(offset: float) -> LinkState:
    return LinkState("localhost", UP, since=100.0, clock_offset=offset, clock_error=0.01)
