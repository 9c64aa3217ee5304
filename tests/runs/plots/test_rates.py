"""Rates as they are said everywhere in a run's page, and the formatters they share."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.quantities import metric
from torchdeck.runs.plots.units import rate_text, value_text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.754, "0.75 tok/s"),
        (12.54, "12.5 tok/s"),
        (940, "940 tok/s"),
        (999.7, "1.00k tok/s"),
        (1240, "1.24k tok/s"),
        (123_400, "123k tok/s"),
        (2.5e6, "2.50M tok/s"),
        (math.nan, "NaN tok/s"),
        (math.inf, "∞ tok/s"),
    ],
)
def test_three_digits_and_a_prefix(value: float, said: str) -> None:
    assert rate_text(value, "tok") == said


@given(st.floats(min_value=1e-3, max_value=1e12))
def test_plots_say_what_lists_say(value: float) -> None:
    assert value_text(value, "tok/s") == rate_text(value, "tok")
    assert value_text(value, "loss") == metric(value)
    assert "e+" not in rate_text(value, "tok")
