"""Series as self-contained rows, for text formats.

name, rank, node, attempt, step, time, value      rank is empty for nodes, node for ranks; time in unix
seconds
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from typing import Any, TextIO

from torchdeck.metrics.export.selection import Selection

COLUMNS = ("name", "rank", "node", "attempt", "step", "time", "value")


def write_csv(selection: Selection, out: TextIO) -> None:
    """Write comma-separated values after RFC 4180, with a header and newlines at line ends; NaN is nan,
    infinity inf.
    """
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_rows(selection))


def write_jsonl(selection: Selection, out: TextIO) -> None:
    """Write one JSON object per line; rank or node is null."""
    for row in _rows(selection):
        value = dict(zip(COLUMNS, row, strict=True))
        out.write(json.dumps({**value, "value": json_number(value["value"])}, ensure_ascii=False) + "\n")


def json_number(value: float) -> float | str:
    """Return `value` as JSON can represent it: NaN and infinities as strings, by protobuf's JSON mapping."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _rows(selection: Selection) -> Iterator[tuple[Any, ...]]:
    for name, owner, series in selection:
        rank, node = (owner, None) if isinstance(owner, int) else (None, owner)
        columns = (series.attempts, series.steps, series.times, series.values)
        for row in zip(*(column.tolist() for column in columns), strict=True):
            yield name, rank, node, *row
