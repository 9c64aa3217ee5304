"""Parameters of a search space: what each spelling means, and what is refused."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.config.problems import Problem
from torchdeck.sweeps.parameter import Choices, Parameter, Range, parse_parameter


def parsed(text: str) -> Parameter:
    found = parse_parameter(text)
    assert isinstance(found, Parameter), found
    return found


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("training.lr=1e-4..1e-2:log", Range(1e-4, 1e-2, log=True)),
        ("x=-1..0.5", Range(-1, 0.5)),
        ("x=1..8:int", Range(1, 8, whole=True)),
        ("x=1..8:log:int", Range(1, 8, log=True, whole=True)),
        ("training.microbatch=8..64", Range(8, 64, whole=True)),
        ("training.microbatch=8,16", Choices((8, 16))),
        ("training.schedule=cosine, linear", Choices(("cosine", "linear"))),
        ("checkpoint.background=true,false", Choices((True, False))),
        ("x='a,b',c", Choices(("a,b", "c"))),
        ("training.betas=[0.9, 0.95],[0.9, 0.99]", Choices(([0.9, 0.95], [0.9, 0.99]))),
        ("x=1,true", Choices((1, True))),
        ("data.source=../a,../b", Choices(("../a", "../b"))),
    ],
)
def test_a_spelling_means_these_values(text: str, domain: Any) -> None:
    assert parsed(text).domain == domain


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("lr", "no values"),
        ("lr=", "no values"),
        ("a b=1", "not a key"),
        ("lr=2..1", "is empty"),
        ("lr=0..1:log", "no logarithm"),
        ("lr=1..b", "not a range"),
        ("lr=1..2:cubic", "not a range"),
        ("x=0.5..3:int", "not whole"),
        ("lr=1,1.0", "twice"),
        ("a=nan,1", "nan is no value"),
        ("lr=[1", "not valid TOML"),
        ("lr=1,,2", "nothing after ="),
    ],
)
def test_what_is_wrong_is_named(text: str, what: str) -> None:
    found = parse_parameter(text)
    assert isinstance(found, Problem)
    assert what in found.wrong
    assert found.file == "--over"


@given(
    st.floats(1e-6, 1e3),
    st.floats(1.001, 1e4),
    st.booleans(),
    st.integers(),
)
def test_a_number_drawn_is_in_its_range(low: float, factor: float, log: bool, seed: int) -> None:
    domain = Range(low, low * factor, log=log)
    value = domain.draw(random.Random(seed))  # noqa: S311 - repeatable, not secret
    assert domain.has(value)
    assert value == domain.draw(random.Random(seed))  # noqa: S311 - repeatable, not secret


@given(st.integers(1, 100), st.integers(1, 100), st.booleans(), st.integers())
def test_a_whole_number_is_drawn_as_one(low: int, more: int, log: bool, seed: int) -> None:
    domain = Range(low, low + more, log=log, whole=True)
    value = domain.draw(random.Random(seed))  # noqa: S311 - repeatable, not secret
    assert type(value) is int
    assert domain.has(value)


def test_a_logarithmic_range_is_drawn_evenly_by_decade() -> None:
    domain, source = Range(1e-4, 1e-2, log=True), random.Random(0)  # noqa: S311 - repeatable, not secret
    below = sum(domain.draw(source) < 1e-3 for _ in range(2000))
    assert 900 < below < 1100


def test_both_ends_of_whole_numbers_are_drawn() -> None:
    source = random.Random(0)  # noqa: S311 - repeatable, not secret
    assert {Range(1, 3, log=True, whole=True).draw(source) for _ in range(200)} == {1, 2, 3}
