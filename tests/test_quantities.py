"""Human-readable numbers."""

from __future__ import annotations

import math

import pytest

from torchdeck.quantities import ago, brief, duration, epochs, metric, moment, rate, size


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 2**30, "3.0 GiB"), (2**52, "4096.0 TiB")],
)
def test_sizes(count: float, text: str) -> None:
    """Binary units."""
    assert size(count) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.4, "0"), (940, "940"), (12_345, "12.3k"), (1.25e6, "1.2M"), (3e9, "3.0G")]
)
def test_rates(value: float, text: str) -> None:
    """Decimal units."""
    assert rate(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0.0, "0"), (0.04213, "0.0421"), (2.0, "2"), (12.54, "12.5"), (99.96, "100"), (1240.4, "1,240")],
)
def test_epochs(count: float, text: str) -> None:
    """Never with an exponent, as three digits of 1,240 would have."""
    assert epochs(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (59.4, "59 s"), (80, "1 min 20 s"), (7500, "2 h 5 min"), (3 * 86400 + 4 * 3600, "3 d 4 h")],
)
def test_durations(seconds: float, text: str) -> None:
    """The two largest units."""
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.00025, "0.25 ms"),
        (0.5123, "512 ms"),
        (0.9996, "1 s"),
        (1.1234, "1.12 s"),
        (200, "3 min 20 s"),
    ],
)
def test_short_times(seconds: float, text: str) -> None:
    """Never with an exponent."""
    assert brief(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "now"),
        (0.9, "now"),
        (59.9, "59 s ago"),
        (60, "1 min ago"),
        (7200, "2 h ago"),
        (864000, "10 d ago"),
    ],
)
def test_past_times(seconds: float, text: str) -> None:
    """By the largest unit; a clock that is a little off says now."""
    assert ago(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.31415, "2.3142"),
        (0, "0.0000"),
        (-12.5, "-12.5000"),
        (0.000012, "1.200e-05"),
        (123456.0, "1.235e+05"),
        (math.nan, "NaN"),
        (-math.inf, "−∞"),
    ],
)
def test_measured_values(value: float, text: str) -> None:
    """Five or so digits that matter, whatever the size; and words for what is no number."""
    assert metric(value) == text


def test_no_moment_is_a_dash() -> None:
    """What has not happened has no time."""
    assert moment(None) == "-"
