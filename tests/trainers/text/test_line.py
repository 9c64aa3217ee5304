"""Numbers out of what widely used scripts print."""

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.trainers.text.line import LINE_LIMIT, Line, parse_line


def test_loss_that_became_nan() -> None:
    """NaN is a number that a person wants to see."""
    for line in ("loss: nan", "iter 5: loss nan, time 1.0ms", "{'loss': nan, 'epoch': 0.1}"):
        reading = parse_line(line)
        assert reading is not None
        assert math.isnan(reading.values["loss"])


@pytest.mark.parametrize(
    "line",
    [
        "",
        "hello",
        "using loss=mse, lr=0.1, batch=32",
        "lossless compression: 5",
        "saved step 100 to /x/y",
        "step 5",
        "time: 12:30:45",
        "loss_version: 1.2.3",
        "torch 2.13.0, step.py:30",
        "{'lr': 0.1, 'batch': 32}",
        "{'model': {'layers': 2}}",
        "listening for iterations on port=29500 rank=0",
    ],
)
def test_lines_without_metrics(line: str) -> None:
    """What merely looks like it gives nothing."""
    assert parse_line(line) is None


PIECES = [
    "loss",
    "loss: ",
    "loss=1",
    "step ",
    "step=1 ",
    "1",
    "1,111",
    "1.",
    "e-",
    "|",
    "━",
    "a_",
    "a.b/",
    "{'",
    "': 1, '",
]
PIECES += [
    "[ 1/100]",
    "1/100 [00:00<00:01, 1.0it/s",
    "]",
    "\x1b[A",
    "Epoch: [1]",
    "[INFO|a.py:1]",
    "(T pid=1) ",
    "2024-01-01 00:00:00 ",
    " - ",
    " | ",
    "lm loss",
    "train ",
    "train loss ",
    "\x1b[",
    "x=1 ",
    "epoch ",
    " ",
    "-",
    "1/1",
    "%",
    "(",
    "nan",
    "tensor(",
    "\r",
    "'",
]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4), st.lists(st.sampled_from(PIECES), max_size=3)
)
def test_no_line_takes_long(repeated: list[str], end: list[str]) -> None:
    """Long lines made to almost match cost milliseconds, not a power of their length."""
    unit = "".join(repeated)
    line = unit * (20000 // len(unit) + 1) + "".join(end)
    begun = time.thread_time()
    parse_line(line)
    assert time.thread_time() - begun < 0.5


def test_far_end_of_a_line_is_not_looked_at() -> None:
    """What stands behind the limit is not read: a line of megabytes costs no more than one of 4,096."""
    assert parse_line("x" * LINE_LIMIT + " loss: 1.0") is None
    assert parse_line("loss: 1.0 " + "x" * 10**6) == Line({"loss": 1.0})
