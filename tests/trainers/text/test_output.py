"""What training programs print, as moments of training: by values, program by program."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from torchdeck.trainers.text.lines import split_lines
from torchdeck.trainers.text.rank_output import OutputReader, Printed
from torchdeck.trainers.text.user_patterns import LineParser

Row = tuple[int, int | None, float | None, dict[str, float]]
PROGRAMS: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "printed_lines.toml").read_text())[
    "program"
]


def rows_of(found: Iterable[Printed]) -> list[Row]:
    """The moments that have values."""
    readings = [printed.reading for printed in found if printed.reading.values]
    return [(reading.step or 0, reading.total, reading.epoch, dict(reading.values)) for reading in readings]


def read(lines: Sequence[str], reader: OutputReader | None = None) -> list[Printed]:
    """All that a rank's lines say; each stream is split as the agent splits it."""
    reader = reader or OutputReader(LineParser())
    found: list[Printed] = []
    for time, line in enumerate(lines):
        stream = "stderr" if line.startswith("E>") else "stdout"
        for text, end in split_lines(f"{line.removeprefix('E>')}\n".encode()):
            found += reader.read(text, stream, end, time / 100)
    found += reader.settle(len(lines) / 100)
    return [*found, *reader.end()]


def plain(rows: Iterable[Row]) -> list[tuple[object, ...]]:
    """Rows that can be compared: NaN is equal to NaN."""
    return [
        (step, total, epoch, {name: "nan" if math.isnan(value) else value for name, value in values.items()})
        for step, total, epoch, values in rows
    ]


@pytest.mark.parametrize("program", PROGRAMS, ids=[program["name"] for program in PROGRAMS])
def test_programs(program: dict[str, Any]) -> None:
    """Each program's lines give their steps, totals, epochs and values, and nothing else."""
    expected = [(row["step"], row.get("total"), row.get("epoch"), row["values"]) for row in program["rows"]]
    assert plain(rows_of(read(program["lines"]))) == plain(expected)


def test_the_table_has_enough_lines_of_enough_programs() -> None:
    """60 lines of 25 programs; those written by hand do not count as one."""
    names = {program["name"].split()[0].rstrip(",:") for program in PROGRAMS}
    assert len(names - {"by", "Torchdeck's"}) >= 25
    assert sum(len(program["lines"]) for program in PROGRAMS) >= 60


def test_bars_of_preparing_data_say_nothing_of_the_training() -> None:
    """From their first drawing on, which has no rate yet."""
    drawn = ("0/2000 [00:00<?, ? examples/s]", "2000/2000 [00:00<00:00, 23764.30 examples/s]")
    lines = [f"E>Tokenizing train dataset: 100%|██████████| {numbers}" for numbers in drawn]
    assert [printed.reading for printed in read(lines)] == []


def test_thousands_of_bars_in_one_line_are_read() -> None:
    found = read(["".join(f"| {step}/3000 [00:01<00:01, 1.0it/s]" for step in range(1, 3000)) + "loss=2.5"])
    assert rows_of(found)[-1][3] == {"loss": 2.5}
