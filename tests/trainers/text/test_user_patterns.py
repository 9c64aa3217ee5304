"""Users' own patterns: first, checked, and never dear."""

import re
import time

import pytest

from torchdeck.trainers.text.line import Line
from torchdeck.trainers.text.user_patterns import LineParser, PatternError, compile_pattern


def test_users_pattern_comes_first() -> None:
    """Where a user's pattern finds a number, the known formats are not asked."""
    parser = LineParser([r"it=(?P<step>\d+) nll=(?P<nll>[-\d.e]+)"])
    assert parser.parse("it=7 nll=1.5 loss: 3.0") == Line({"nll": 1.5}, 7)
    assert parser.parse("loss: 3.0 step=2") == Line({"loss": 3.0}, 2)


def test_first_of_several_that_finds_a_number() -> None:
    """Patterns are tried in their order; a group that is no number is left out."""
    parser = LineParser([r"a (?P<a>\S+)", r"b (?P<b>\S+) (?P<step>\S+)?"])
    assert parser.parse("a 1,000 b 2 3") == Line({"a": 1000.0}, None)
    assert parser.parse("a none b 2 3") == Line({"b": 2.0}, 3)
    assert parser.parse("b 2 x") == Line({"b": 2.0}, None)
    assert parser.parse("b none x") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(?P<x>", "not a regular expression"),
        ("(?P<x>a){4294967296}", "not a regular expression"),
        ("loss (.*)", "no named group"),
        (r"(?P<step>\d+)", "no named group"),
        (r"(?P<x>(a+)+)$", "repeat"),
        (r"(?P<x>(?:\d|\d\d)*)x", "repeat"),
        (r"(?P<x>(?:a?){30}a{30})", "repeat"),
        (r"(?=(?:(?P<x>a*)*b))", "repeat"),
    ],
)
def test_unusable_patterns_say_why(text: str, said: str) -> None:
    """A pattern that cannot be used, or could take for ever, is refused with what is wrong."""
    with pytest.raises(PatternError, match=said):
        compile_pattern(text)


@pytest.mark.parametrize(
    "text",
    [
        r"loss (?P<loss>\d+(?:\.\d+)?)",
        r"(?P<loss>[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?) nats",
        r"(?:train|val) .*? (?P<acc>\S+)%",
        r"^\s*\[(?P<step>\d+)/\d+\]\s+(?P<loss>\S+)",
        r"(?:\d{2}:){2}\d{2} (?P<loss>\S+)",
        r".*epoch.*loss.*acc: (?P<acc>\S+)",
        r"^.*\[.*\] .*loss: (?P<loss>\d*\.\d*) .*$",
    ],
)
def test_usual_patterns_are_taken(text: str) -> None:
    """The check does not get into the way of what people write."""
    assert compile_pattern(text).pattern == text


@pytest.mark.parametrize(
    ("text", "unit"),
    [(r"(?P<x>a*a*a*a*b)", "a"), (r"=*.*=*.*=*(?P<x>\d+)$", "="), (r".*:.*:.*:.*:(?P<x>\d)x", ": ")],
)
def test_rules_and_bars_do_not_hold_up_the_agent(text: str, unit: str) -> None:
    """Repeats that match the same text are quick even for a line that is the same all along."""
    parser = LineParser([text])
    begun = time.thread_time()
    assert parser.parse(unit * 4000) is None
    assert time.thread_time() - begun < 1


def test_long_rule_beside_a_number() -> None:
    """A long rule in a line is seen shorter, the rest as it is."""
    parser = LineParser([r"-+ nll (?P<nll>\d+\.\d+) -+$"])
    assert parser.parse("-" * 400 + " nll 1.25 " + "-" * 400) == Line({"nll": 1.25}, None)


def test_slow_pattern_is_used_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern that took long for a line is said and given up; the known formats continue."""
    monkeypatch.setattr("torchdeck.trainers.text.user_patterns.SLOW_MATCH", -1.0)
    parser = LineParser([r"x (?P<x>\d+)"])
    assert parser.parse("x 1") == Line({"x": 1.0}, None)
    assert parser.parse("x 1") is None
    assert "used no more" in caplog.text
    assert parser.parse("loss: 1.0") == Line({"loss": 1.0}, None)


def test_parser_leaves_out_what_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """An agent with a pattern it cannot use says so and reads on with the others."""
    parser = LineParser([r"(?P<x>", r"x (?P<x>\d+)"])
    assert parser.parse("x 1") == Line({"x": 1.0}, None)
    assert "not a regular expression" in caplog.text


def test_error_of_python_is_told() -> None:
    """The message holds what Python's own parser says, with the position."""
    with pytest.raises(PatternError, match=re.escape("unterminated subpattern at position 1")):
        compile_pattern("a(?P<x>b"[0:1] + "(?P<x>b")
