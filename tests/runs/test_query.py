"""Filter expressions over runs."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.runs.query.expression import QueryError, Values, is_expression, parsed

RUN: Values = {
    "state": ("FAILED",),
    "name": ("big run",),
    "tag": ("best", "sweep"),
    "loss": (2.5,),
    "step": (1240,),
    "training.lr": ("0.001",),
    "model.width": ("128",),
    "data.width": ("4",),
    "note": (),
}


@pytest.mark.parametrize(
    "text",
    [
        "state = failed",
        "training.lr > 1e-4 and state = failed",
        "lr = 1e-3",
        "lr>=0.001 and lr<=0.001",
        "tag = sweep and tag = best",
        'name = "big run"',
        "name ~ BIG",
        "not (state = running or step < 1000)",
        "state = running or loss < 3 and step != 7",
        "model.width = 128",
        "not note ~ x",
    ],
)
def test_what_a_run_fulfils(text: str) -> None:
    assert parsed(text).matches(RUN)


@pytest.mark.parametrize(
    "text",
    [
        "state = running",
        "lr > 1",
        "width = 128",  # of two keys
        "gone = 1",
        "gone != 1",
        "note ~ x",
        "name < z",  # texts have no order
        "(state = running or state = failed) and loss > 3",
    ],
)
def test_what_it_does_not(text: str) -> None:
    assert not parsed(text).matches(RUN)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lr >", "at its end: expected a value, in quotes"),
        ("lr", "at its end: expected =, !=, <"),
        ("lr = 1 step = 2", "at 'step', character 8: expected and, or, or the end"),
        ("(lr = 1", "at its end: expected )"),
        ('name = "big', "at character 7: close the quotes"),
        ("= 1", "at '=', character 1: expected a key"),
        ("a ! b", "not understood at character"),
        ("(" * 60 + "a = 1" + ")" * 60, "at most 50 parentheses"),
        ("a = " + "b" * 2000, "at most 1,000"),
    ],
)
def test_what_is_not_understood_says_where(text: str, said: str) -> None:
    with pytest.raises(QueryError) as raised:
        parsed(text)
    assert said in str(raised.value)


def test_plain_words_are_no_expression() -> None:
    assert not is_expression("quickstart ddp")
    assert is_expression("lr>1")


COMPARISONS = st.tuples(
    st.sampled_from(list(RUN)),
    st.sampled_from(["=", "!=", "<", ">", "~"]),
    st.sampled_from(["1", "best", "failed"]),
)


@given(COMPARISONS, COMPARISONS)
def test_and_or_and_not_are_those_of_logic(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    a, b = " ".join(one), " ".join(other)
    first, second = parsed(a).matches(RUN), parsed(b).matches(RUN)
    assert parsed(f"{a} and {b}").matches(RUN) == (first and second)
    assert parsed(f"{a} or {b}").matches(RUN) == (first or second)
    assert parsed(f"not ({a})").matches(RUN) == (not first)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(QueryError):
        parsed(text).matches(RUN)
