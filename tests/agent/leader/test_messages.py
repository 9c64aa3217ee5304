"""Events and commands survive the way over JSON, and nothing else comes through."""

from __future__ import annotations

import json
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.few_examples import cases
from torchdeck.agent.gang import commands, events
from torchdeck.agent.leader.gang_messages import (
    MessageError,
    command_from_json,
    event_from_json,
    number_of,
    to_json,
)
from torchdeck.contract.run_states import TextEnum

ATOMS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=5),
    int: st.integers(-(1 << 63) + 1, (1 << 63) - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    type(None): st.none(),
}
OBJECTS = st.dictionaries(st.text(max_size=3), st.text(max_size=3) | st.integers(), max_size=2)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of an annotation of a message's field."""
    arguments = get_args(kind)
    if kind in ATOMS:
        return ATOMS[kind]
    if isinstance(kind, type) and issubclass(kind, TextEnum):
        return st.sampled_from(kind)
    if hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        return st.builds(kind, **{name: values(hints[name]) for name in kind._fields})
    if get_origin(kind) is tuple:
        return st.lists(values(arguments[0]), max_size=2).map(tuple)
    if type(None) in arguments:
        return st.one_of([values(argument) for argument in arguments])
    return OBJECTS


@given(st.one_of([values(kind) for kind in get_args(events.Event)]))
def test_every_event_comes_back(event: events.Event) -> None:
    """With its types: tuples of tuples, failures, places."""
    assert event_from_json(json.loads(json.dumps(to_json(event)))) == event


@given(st.one_of([values(kind) for kind in get_args(commands.Command)]))
def test_every_command_comes_back(command: commands.Command) -> None:
    """As events."""
    assert command_from_json(json.loads(json.dumps(to_json(command)))) == command


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"is": "Launch"},
        {"is": 3},
        {"is": "NodeReady"},
        {"is": "NodeReady", "node": 3},
        {"is": "NodeReady", "node": "a", "more": 1},
        {"is": "RankProgress", "attempt": True, "rank": 0, "step": 1},
        {"is": "RankProgress", "attempt": 1.0, "rank": 0, "step": 1},
        {"is": "NodeClean", "node": "a", "attempt": 1, "killed": 0, "left": 0, "failure": {"rank": 1}},
        {"is": "Offered", "node": "a", "attempt": 1, "port": None, "points": "none"},
        {"is": "LeasesHeld", "node": "a", "held_by": ["x"]},
    ],
)
def test_what_is_no_event_is_refused(value: Any) -> None:
    """By the name, the fields' names and their types."""
    with pytest.raises(MessageError):
        event_from_json(value)


def test_a_time_that_is_none_is_refused() -> None:
    """json takes NaN; a failure's time is a number."""
    clean = events.NodeClean("a", 1, 0, 0, events.Failure(1, 1, None, "", None, float("nan")))
    with pytest.raises(MessageError, match="time"):
        event_from_json(json.loads(json.dumps(to_json(clean))))


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
NESTED = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=cases(50))
@given(st.data())
def test_whatever_a_hostile_node_sends_is_an_event_or_refused(data: st.DataObject) -> None:
    """Any value in any field: numbers without bounds, nesting, other types."""
    kind = data.draw(st.sampled_from(get_args(events.Event)))
    fields = {name: data.draw(NESTED) for name in kind._fields if data.draw(st.booleans())}
    try:
        event = event_from_json({"is": kind.__name__, **fields})
    except MessageError as error:
        assert len(str(error)) < 1000  # noqa: PT017 - most cases are refused, some are events
    else:
        json.dumps(to_json(event))


@pytest.mark.parametrize("value", [None, "1", True, [1], float("nan"), float("inf"), 10**400])
def test_a_clock_that_is_no_number_is_refused(value: Any) -> None:
    """What a node answers to a ping."""
    with pytest.raises(MessageError, match="wall"):
        number_of({"wall": value}, "wall")
