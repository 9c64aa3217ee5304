"""A regular expression that cannot stop anything."""

import re
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.runs.logs.line_pattern import LinePattern, PatternError, SlowPatternError

SLOW = ("(a+)+$", "(a|aa)+$", r"(\w*)*\d$", "(.*a){20}b")


@pytest.mark.parametrize("text", SLOW)
def test_one_that_backtracks_for_ever_is_given_up_and_lets_others_work(text: str) -> None:
    pattern, over, errors = LinePattern(text), threading.Event(), list[str]()

    def look() -> None:
        try:
            pattern.is_in("a" * 5000 + "!", 0.3)
        except SlowPatternError as error:
            errors.append(str(error))
        over.set()

    threading.Thread(target=look, daemon=True).start()
    turns = 0
    limit = time.monotonic() + 60
    while not over.wait(0.005) and time.monotonic() < limit:
        turns += 1
    assert errors
    assert errors[0].startswith("This expression takes too long")
    assert turns > 3  # Python's own engine would have let no one else continue


def test_what_is_marked_is_given_up_too() -> None:
    with pytest.raises(SlowPatternError):
        LinePattern("(a+)+$").spans("a" * 5000 + "!", 0.1)
    assert LinePattern("a+|b*").spans("xaab") == [(1, 3), (3, 4)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(", "no regular expression at character 2: missing )"),
        ("a{100}{100}", "more than 1,000 times"),
        ("((a{100}){100}){100}", "more than 1,000 times"),
        ("(?:x[)]{30}){40}", "more than 1,000 times"),
        ("a{" + "9" * 5000 + "}", "no regular expression"),
        ("(" * 5000, "no regular expression"),
    ],
)
def test_what_is_none_or_too_large_is_said(text: str, said: str) -> None:
    with pytest.raises(PatternError, match=re.escape(said)):
        LinePattern(text)


def test_counts_beside_each_other_do_not_multiply() -> None:
    uuid = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    text = f"{uuid} {uuid} \\w{{40}} \\d{{4}}"
    line = "0123abcd-0123-4567-89ab-0123456789ab " * 2 + "a" * 40 + " 2026"
    assert LinePattern(text).is_in(line)


@given(
    text=st.lists(
        st.sampled_from(["a", "b", r"\d", ".", "[^a]", "(a|b)", "a*", "(?:ab)+", "^", "$", r"\b", "x{2}"]),
        max_size=5,
    ).map("".join),
    line=st.text(alphabet="abxB1 -", max_size=20),
    match_case=st.booleans(),
)
def test_common_expressions_mean_what_python_takes_them_for(text: str, line: str, match_case: bool) -> None:
    python = re.compile(text, 0 if match_case else re.IGNORECASE)
    mine = LinePattern(text, match_case=match_case)
    assert mine.is_in(line) == (python.search(line) is not None)
    assert mine.spans(line) == [each.span() for each in python.finditer(line) if each.group()]
