"""Division of a run's time, for any history."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.runs.goodput.texts import goodput_lines, goodput_sentence
from torchdeck.runs.goodput.uses import AttemptTimes, Goodput, Slowness, Span, Steps, Use, divide

TIMES = st.floats(0.0, 1000.0)
SECONDS = st.one_of(st.just(math.nan), st.floats(-1.0, 100.0))


def steps(times: list[float], numbers: list[int], seconds: list[float] | None = None) -> Steps:
    given = [math.nan] * len(times) if seconds is None else seconds
    return Steps(np.array(times, float), np.array(numbers, np.int64), np.array(given, float))


@st.composite
def attempts(draw: st.DrawFn) -> list[AttemptTimes]:
    """Attempts in order of their begin; ends, rows and saves are anywhere, as damaged files may have them."""
    found = []
    for begin in sorted(draw(st.lists(TIMES, min_size=1, max_size=4))):
        rows = draw(st.lists(st.tuples(TIMES, st.integers(0, 50), SECONDS), max_size=8))
        saves = draw(st.lists(st.tuples(TIMES, st.floats(-1.0, 50.0)), max_size=3))
        columns = ([row[at] for row in rows] for at in range(3))
        times, numbers, seconds = columns
        found.append(
            AttemptTimes(
                begin,
                draw(TIMES),
                steps([float(time) for time in times], [int(number) for number in numbers], list(seconds)),
                is_first=draw(st.booleans()),
                is_last=draw(st.booleans()),
                resumed=draw(st.none() | st.integers(0, 50)),
                saves=saves,
            )
        )
    return found


SPANS = st.lists(st.builds(Span, TIMES, TIMES), max_size=3)
SLOW = st.lists(st.builds(Slowness, st.builds(Span, TIMES, TIMES), st.floats(-1.0, 2.0)), max_size=3)


@given(TIMES, attempts(), SPANS, SPANS, SLOW)
def test_each_second_has_one_use(
    created: float, found: list[AttemptTimes], queued: list[Span], stalls: list[Span], slow: list[Slowness]
) -> None:
    """No use is negative, the shares add up to 1, and the sum is the time from creation to end without the
    gaps between sessions.
    """
    seconds = divide(created, found, queued, stalls, slow)
    assert all(value >= -1e-6 for value in seconds.values())
    goodput = Goodput(seconds)
    shares = sum(goodput.share(use) for use in Use)
    assert shares == pytest.approx(1.0) if goodput.wall > 0 else shares == 0
    if all(not each.is_first for each in found[1:]):
        ends = created
        for number, each in enumerate(found):
            begin = max(ends, each.begin)
            later = found[number + 1].begin if number + 1 < len(found) else math.inf
            ends = max(begin, min(each.end, later))
        assert goodput.wall == pytest.approx(ends - created, abs=1e-6)


def test_a_restart_costs_the_pause_and_the_steps_done_again() -> None:
    """Ten steps of 1 s; a failure; 5 s later the run continues from step 6, and ends at step 20."""
    first = AttemptTimes(
        2.0, 17.0, steps([5.0 + i for i in range(1, 11)], list(range(1, 11)), [1.0] * 10), is_last=False
    )
    second = AttemptTimes(
        20.0, 40.0, steps([23.0 + i for i in range(1, 15)], list(range(7, 21)), [1.0] * 14), is_first=False
    )
    found = divide(0.0, [first, second])
    assert found[Use.START] == pytest.approx(5.0)
    assert found[Use.PRODUCTIVE] == pytest.approx(20.0)
    assert found[Use.RECOMPUTE] == pytest.approx(4.0)
    assert found[Use.RESTART] == pytest.approx(2.0 + 3.0 + 3.0)
    assert found[Use.OTHER] == pytest.approx(3.0)
    assert sum(found.values()) == pytest.approx(40.0)


def test_queue_saves_stalls_and_stragglers_are_told_apart() -> None:
    rows = steps([11.0, 12.0, 15.0, 26.0, 27.0], [1, 2, 3, 4, 5], [1.0] * 5)
    attempt = AttemptTimes(9.0, 27.0, rows, saves=[(14.0, 2.0)])
    slow = [Slowness(Span(25.0, 27.0), 0.25)]
    found = divide(0.0, [attempt], [Span(1.0, 7.0)], [Span(15.0, 20.0), Span(16.0, 25.0)], slow)
    want = {Use.QUEUE: 6.0, Use.START: 4.0, Use.SAVE: 2.0, Use.STALL: 10.0, Use.STRAGGLER: 0.5}
    assert {use: pytest.approx(value) for use, value in want.items()} == {use: found[use] for use in want}
    assert found[Use.PRODUCTIVE] == pytest.approx(4.5)


def test_rows_every_ten_steps_count_as_ten() -> None:
    """The steps done again are part of an interval then."""
    first = AttemptTimes(0.0, 20.0, steps([10.0, 20.0], [10, 20]), is_last=False, resumed=0)
    second = AttemptTimes(20.0, 40.0, steps([30.0, 40.0], [15, 25]), is_first=False, resumed=10)
    found = divide(0.0, [first, second])
    assert found[Use.START] == 0
    assert found[Use.RESTART] == pytest.approx(5.0)
    assert found[Use.RECOMPUTE] == pytest.approx(10.0)
    assert found[Use.PRODUCTIVE] == pytest.approx(25.0)


def test_it_is_said_in_one_line() -> None:
    seconds = {Use.PRODUCTIVE: 3600.0, Use.RESTART: 300.0, Use.SAVE: 100.0, Use.START: 1.0}
    node = Goodput(seconds, 7.2e6)
    text = "goodput 90 % of 1 h 6 min (restarts 7 %, saves 2 %), 2.0 kWh"
    assert goodput_sentence(node) == text
    lines = list(goodput_lines(Goodput(seconds, 7.2e6, {"a": node, "b": Goodput(seconds)})))
    assert lines[1:] == [f"  node a: {text}", f"  node b: {text.removesuffix(', 2.0 kWh')}"]
    assert goodput_sentence(Goodput(seconds, 3600.0)).endswith(", 1.0 Wh")


def test_rows_for_exports_name_the_node() -> None:
    """First the run's, then each node's; energy only if it is known."""
    node = Goodput({Use.PRODUCTIVE: 6.0, Use.STALL: 2.0}, 50.0)
    rows = Goodput({Use.PRODUCTIVE: 6.0, Use.STALL: 2.0}, None, {"gpu3": node}).rows()
    own = {name: value for where, name, value in rows if where is None}
    there = {name: value for where, name, value in rows if where == "gpu3"}
    assert (own["wall_seconds"], own["productive_seconds"], own["stall_share"]) == (8.0, 6.0, 0.25)
    assert there == {**own, "joules": 50.0}
