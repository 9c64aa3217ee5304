"""Hostile output of programs: whatever two streams say, it is read to its end."""

from __future__ import annotations

import contextlib
from pathlib import Path

from hypothesis import strategies as st

from support.fuzz.fuzzing import read_all
from torchdeck.trainers.text.line import parse_line
from torchdeck.trainers.text.lines import split_lines
from torchdeck.trainers.text.rank_output import OutputReader, Printed
from torchdeck.trainers.text.user_patterns import LineParser, PatternError, compile_pattern

PIECES = (
    *(
        "\r",
        "\n",
        "\x1b[A",
        "   ",
        "Epoch 1",
        "Epoch: [1]",
        "[ 1/3]",
        " step 1/2",
        " loss 1",
        "loss=2",
        ", loss=3",
    ),
    *("{'loss': 1, ", "'epoch': 0.5}", "| 1/3 [00:01<00:01, 1.0it/s", "]", "━━ 1/3 ", "Validation ", "0/3"),
    *(
        "1e999",
        "9" * 25,
        "9" * 5000,
        "'train_runtime': 1, 'train_steps_per_second': 3, ",
        "it/s]step:1",
        "\0",
    ),
    *(
        "Total optimization steps = 3\n",
        "[INFO|a.py:1]",
        "(T pid=1) ",
        "2024-01-01 00:00:00 ",
        "tensor(",
        "nan",
    ),
    *("lm loss", "train loss ", "x=1 ", "a.b/", "{'", "': 1, '", "1,111", "e-", "|", "%", "(", "'", "1/1"),
)
LETTERS = "loss:=step iter0123456789.,e-+{}'\"[]|/%\r\x1b[mnaif"
PATTERN = "()[]{}?P<x>*+|\\d.ab^$"
PART = b"\0\0line\0\0"


def check(found: Printed, lines: int) -> None:
    reading = found.reading
    assert reading.step is None or 0 <= reading.step < 2**63
    assert all(name and isinstance(value, float) for name, value in reading.values.items())
    assert reading.time is not None
    assert 0 <= reading.time <= lines


def read_output(case: bytes, _: Path) -> None:
    """Lines of the two streams in turn; each alone, too."""
    lines = [line for line, _ in split_lines(case + b"\n")]
    reader = OutputReader(LineParser())
    for number, line in enumerate(lines):
        stream = "stderr" if len(line) % 2 else "stdout"
        for printed in reader.read(line, stream, number, number):
            check(printed, len(lines))
        parse_line(line)
    for printed in (*reader.settle(len(lines)), *reader.end()):
        check(printed, len(lines))


def read_with_pattern(case: bytes, _: Path) -> None:
    """A pattern of any characters is refused, or reads any line."""
    pattern, _part, line = case.decode("utf-8", "replace").partition(PART.decode())
    with contextlib.suppress(PatternError):
        compile_pattern(pattern)
    LineParser([pattern]).parse(line)


def test_output() -> None:
    pieces = st.lists(st.sampled_from(PIECES) | st.text(max_size=20) | st.text(LETTERS), max_size=60).map(
        "".join
    )
    long = st.builds(
        lambda unit, count: ("".join(unit) * count)[: 1 << 17],
        st.lists(st.sampled_from(PIECES), min_size=1, max_size=4),
        st.integers(1, 5000),
    )
    texts = (pieces | long).map(lambda text: text.encode("utf-8", "surrogatepass"))
    read_all(read_output, texts | st.binary(max_size=400))


def test_patterns_of_users() -> None:
    lines = st.text(max_size=50) | st.builds(
        lambda text: text * 4000, st.sampled_from(("a", "ab", "1 ", "=", "x"))
    )
    case = st.tuples(st.text(PATTERN, max_size=20) | st.text(max_size=20), lines)
    read_all(read_with_pattern, case.map(lambda each: PART.decode().join(each).encode("utf-8", "replace")))
