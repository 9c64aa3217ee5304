"""The one family of errors that front ends render."""

from __future__ import annotations

import errno

import pytest

from torchdeck.config.problems import ConfigError, Problem
from torchdeck.contract.refusal import Refusal, refusal_of
from torchdeck.nodes.ssh.errors import UnansweredError


def test_one_line_has_where_what_why_and_what_to_do() -> None:
    refusal = Refusal("it cannot be made", "disk full", "make room", file="run.toml", line=3, key="name")
    assert str(refusal) == "run.toml:3: name: it cannot be made (disk full): make room"
    assert str(Refusal("it is gone", node="a")) == "node a: it is gone"
    assert str(Refusal("it is gone")) == "it is gone"


def test_a_colon_in_a_sentence_divides_nothing() -> None:
    """The fix is a field: what the system says may hold colons."""
    refusal = Refusal("/tmp/a: b cannot be read", "x: y")
    assert (refusal.finding, refusal.fix) == ("/tmp/a: b cannot be read (x: y)", "")


def test_a_config_has_a_part_for_each_problem() -> None:
    error = ConfigError(
        [Problem("training.lr", "run.toml", 4, "is text", "a number"), Problem("", "", None, "b", "")]
    )
    first, second = error.parts()
    assert (first.key, first.file, first.line, first.what, first.fix) == (
        "training.lr",
        "run.toml",
        4,
        "is text",
        "a number",
    )
    assert str(second) == "b"
    assert error.is_usage


def test_an_error_of_a_node_is_still_a_timeout() -> None:
    """Callers that wait for TimeoutError get it, and its fields are not those of OSError."""
    with pytest.raises(TimeoutError) as raised:
        raise UnansweredError("a", "it took longer than 3 s")
    assert str(raised.value) == "node a: it took longer than 3 s"
    assert isinstance(raised.value, Refusal)
    assert raised.value.node == "a"


def test_any_error_becomes_one() -> None:
    known = Refusal("known")
    assert refusal_of(known) is known
    assert str(refusal_of(ValueError("odd"))) == "odd"
    assert str(refusal_of(ValueError())) == "ValueError"
    assert (
        str(refusal_of(OSError(errno.ENOSPC, "No space left on device", "/a")))
        == "/a (No space left on device)"
    )
