"""Journals in any order and with any content have a view."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.values.histories import (
    agent_started,
    created,
    ended,
    event,
    failure,
    finished,
    fold,
    folded,
    started,
)
from torchdeck.contract.journal import Event
from torchdeck.runs.run_state import Liveness, NodeLiveness, RunState

WHOLE = [
    agent_started(),
    event("queued", held_by=[{"device": "0", "run_id": "o", "name": "n"}]),
    event("leased", devices=["0"]),
    started(),
    event("running", 102.0, attempt=1),
    event("checkpoint", 102.5, step=4, path="/c/step_00000004", seconds=0.1, size=10),
    event("hang", attempt=1, rank=1, phase="training", step=5, still=40.0, limit=30.0, detail=""),
    event("rank_exited", attempt=1, rank=1, code=None, signal="SIGKILL"),
    ended(1, "failed", failure()),
    event("restarting", attempt=2, delay=1.0, resume="/c/step_00000004"),
    started(2, 106.0, reason="restart"),
    event("stopping", kind="graceful", why="user", request="x"),
    event("signalled", signal="SIGTERM", count=1),
    event("request", id="x", kind="stop"),
    event("disk_low", free=1, needed=2, path="/"),
    event("checkpoint_damaged", path="/c/step_00000004", why="hash"),
    event("hang_over", rank=1),
    event("numbers_left_out", attempt=1, ranks=[0, 1]),
    event("agent_failed", error="KeyError: 'x'"),
    event("strangers", count=12, address="10.0.0.9", why="it does not hold the key of this run"),
]


JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


NAMES = sorted(
    {item.name for item in WHOLE} | {"created", "controller_started", "finished", "resumed", "request"}
)


FIELDS = sorted(
    {name for item in [*WHOLE, created(), finished()] for name in item.fields} | {"identity", "epoch"}
)


ODD_EVENTS = st.builds(
    Event,
    st.sampled_from(NAMES),
    st.floats(0, 1e9),
    st.floats(0, 1e9),
    st.dictionaries(st.sampled_from(FIELDS), JUNK),
)


LIVENESS = st.builds(
    Liveness,
    controller=st.booleans(),
    nodes=st.dictionaries(
        st.just("localhost"), st.builds(NodeLiveness, agent=st.booleans(), holder=st.booleans())
    ),
    orphans=st.booleans(),
    same_boot=st.booleans(),
)


@settings(deadline=None)
@given(st.permutations(WHOLE), st.integers(0, len(WHOLE)), LIVENESS)
def test_no_order_of_events_makes_the_fold_raise(
    events: list[Event], length: int, liveness: Liveness
) -> None:
    """Every prefix of every order of events has a view that is JSON, and never SUCCEEDED before the end."""
    view = folded(events[:length], liveness)
    json.dumps(view.to_json())
    assert view.state is not RunState.SUCCEEDED


@settings(deadline=None)
@given(st.lists(ODD_EVENTS, max_size=12), st.lists(ODD_EVENTS, max_size=6), JUNK, LIVENESS)
def test_no_content_of_events_makes_the_fold_raise(
    node: list[Event], journal: list[Event], junk: Any, liveness: Liveness
) -> None:
    """Fields of any type, missing or absurd, are read around."""
    beat = {"attempt": 1, "ranks": {"0": junk, "1": {"step": junk}}, "rss_bytes": junk, "t": junk}
    view = fold("r", journal, {"localhost": node}, {"localhost": beat}, liveness, 110.0)
    json.dumps(view.to_json())


@settings(deadline=None)
@given(
    st.permutations(WHOLE),
    st.integers(0, len(WHOLE)),
    st.sampled_from(["SUCCEEDED", "FAILED", "CANCELLED"]),
    LIVENESS,
)
def test_finished_is_the_end_in_any_order(
    events: list[Event], place: int, state: str, liveness: Liveness
) -> None:
    """Once `finished` is read the state is what it says, whatever comes before or after it."""
    assert folded([*events[:place], finished(state), *events[place:]], liveness).state == state
