"""Ticks, texts and ranges by values."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.runs.plots.ranges import stepped_end, stepped_log_range, stepped_range
from torchdeck.runs.plots.units import (
    Unit,
    log_ticks,
    plain,
    tick_labels,
    tick_step,
    tick_values,
    value_text,
)
from torchdeck.runs.plots.x_axis import x_text, x_ticks

GIB = 2.0**30


@pytest.mark.parametrize(
    ("low", "high", "most", "unit", "labels"),
    [
        (0, 10, 5, "", ["0", "2", "4", "6", "8", "10"]),
        (0, 3e-4, 3, "", ["0.0000", "0.0001", "0.0002", "0.0003"]),
        (2.25, 2.5, 3, "", ["2.3", "2.4", "2.5"]),
        (110e3, 130e3, 2, "tok/s", ["110k", "120k", "130k"]),
        (0, 80 * GIB, 4, "bytes", ["0 GiB", "20 GiB", "40 GiB", "60 GiB", "80 GiB"]),
        (28.8 * GIB, 29.2 * GIB, 2, "bytes", ["28.8 GiB", "29.0 GiB", "29.2 GiB"]),
        (0.25, 0.4, 3, "s", ["250 ms", "300 ms", "350 ms", "400 ms"]),
        (0, 100, 2, "%", ["0 %", "50 %", "100 %"]),
        (0, 3, 9, "count", ["0", "1", "2", "3"]),
        (0, 2e6, 2, "count", ["0", "1M", "2M"]),
    ],
)
def test_ticks_are_round_and_share_a_unit(
    low: float, high: float, most: int, unit: Unit, labels: list[str]
) -> None:
    step = tick_step(high - low, most, unit, high)
    assert tick_labels(tick_values(low, high, step), step, unit) == labels


@given(st.floats(1e-12, 1e15), st.integers(1, 20))
def test_never_more_steps_than_asked_for(span: float, most: int) -> None:
    step = tick_step(span, most)
    assert span / step <= most * (1 + 1e-6)
    assert span / step >= most / 5.1


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2.4131, "", "2.413"),
        (1240.0, "", "1,240"),
        (12_400.4, "tok/s", "12.4k tok/s"),
        (1.5e9, "count", "1.5G"),
        (0.000216, "", "0.000216"),
        (3e-6, "", "3e-06"),
        (38.2 * GIB, "bytes", "38.2 GiB"),
        (0.512, "s", "512 ms"),
        (83.4, "%", "83 %"),
        (float("nan"), "s", "NaN"),
        (float("-inf"), "", "−∞"),
    ],
)
def test_values_are_said_with_units(value: float, unit: Unit, text: str) -> None:
    assert value_text(value, unit) == text


def test_plain_numbers_keep_four_figures() -> None:
    assert [plain(value) for value in (0.0, -3.0, 0.01234, 999.96, 123456.0)] == [
        "0",
        "-3",
        "0.01234",
        "1000",
        "123.5k",
    ]


def test_logarithmic_ticks_are_powers_with_steps_between_where_there_are_few() -> None:
    assert log_ticks(0.9, 30) == pytest.approx([1, 2, 5, 10, 20])
    assert log_ticks(1e-6, 1e3) == pytest.approx([10.0**n for n in range(-6, 4)])


def test_time_axes_count_in_seconds_minutes_and_hours() -> None:
    assert [label for _, label in x_ticks("relative", 0, 60, 4, log=False)] == [
        "0 s",
        "15 s",
        "30 s",
        "45 s",
        "60 s",
    ]
    assert [label for _, label in x_ticks("relative", 0, 3600, 2, log=False)] == ["0 min", "30 min", "60 min"]
    assert [label for _, label in x_ticks("relative", 0, 86400, 2, log=False)] == ["0 h", "12 h", "24 h"]
    noon = time.mktime((2026, 11, 22, 12, 0, 0, 0, 0, -1))
    assert [label for _, label in x_ticks("wall", noon, noon + 3600, 2, log=False)] == [
        "12:00",
        "12:30",
        "13:00",
    ]
    assert x_text("relative", 125.0) == "2 min 5 s"
    assert x_text("step", 12400.2) == "step 12,400"


@given(st.floats(0, 1e9), st.floats(1e-3, 1e9))
def test_an_end_moves_in_steps_and_holds_what_there_is(start: float, span: float) -> None:
    end = stepped_end(start, start + span)
    assert start + span <= end * (1 + 1e-9)
    assert end - start <= 1.7 * span + 1e-6 * start + 1e-9


def test_an_axis_stays_where_it_is_while_points_come() -> None:
    ends = {stepped_end(0, step) for step in range(1000, 1200)}
    assert ends == {1000.0, 1200.0}
    first = stepped_range(2.3, 9.8, None)
    assert first[0] <= 2.3
    assert first[1] >= 9.8
    assert stepped_range(2.2, 9.9, first) == first
    assert stepped_range(2.2, 2.3, first) != first
    assert stepped_range(5, 5, None) == (4.5, 5.5)
    assert stepped_range(20, 90, None, "%") == (0, 100)
    assert stepped_log_range(0.013, 70, None) == pytest.approx((0.01, 100))
    assert stepped_log_range(0.02, 50, (0.01, 100)) == (0.01, 100)


@given(st.floats(-1e12, 1e12), st.floats(0, 1e12))
def test_a_range_holds_what_it_is_for(low: float, span: float) -> None:
    high = low + span
    found = stepped_range(low, high, None)
    slack = 1e-6 * max(abs(low), abs(high), 1e-9)
    assert found[0] <= low + slack
    assert found[1] >= high - slack
    assert found[0] < found[1]
