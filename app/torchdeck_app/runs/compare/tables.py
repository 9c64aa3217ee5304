"""What is said side by side of several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchdeck.config.toml.differences import ABSENT, as_shown, leaves, same
from torchdeck.quantities import duration, metric, moment, size
from torchdeck.runs.folders.notes import Note
from torchdeck.runs.run_list import RunEntry
from torchdeck_app.runs.table.columns import COLUMNS, Row, lasted


def configuration_rows(tables: Sequence[Mapping[str, Any]], *, every: bool = False) -> list[tuple[str, ...]]:
    """A row a key: its name, and what each run says of it.

    Args:
        tables: what each run's file says, without defaults.
        every: also keys of which all say the same.
    """
    opened = [dict(leaves(table)) for table in tables]
    paths = list(dict.fromkeys(path for table in opened for path in table))
    rows = []
    for path in paths:
        values = [table.get(path, ABSENT) for table in opened]
        if every or not all(same(values[0], value) for value in values[1:]):
            rows.append((".".join(path), *(as_shown(value, 120) for value in values)))
    return rows


def end_values(entries: Sequence[RunEntry], now: float) -> list[tuple[str, ...]]:
    """A row a quantity: its name, and each run's value at its end, or as of now."""
    rows = [Row(entry, Note()) for entry in entries]

    def shown(key: str) -> tuple[str, ...]:
        return tuple(COLUMNS[key].text(row, now) or "–" for row in rows)

    def progress(name: str) -> list[float | None]:
        found = [getattr(row.entry.progress, name, None) for row in rows]
        return [float(value) if isinstance(value, int | float) else None for value in found]

    took = [lasted(row, now) for row in rows]
    views = [row.entry.view for row in rows]
    return [
        ("State", *shown("state")),
        ("Step", *shown("step")),
        ("Loss", *(_said(value, metric) for value in progress("loss"))),
        ("Held-out loss", *(_said(value, metric) for value in progress("heldout_loss"))),
        ("Throughput", *shown("throughput")),
        ("Memory of the fullest rank", *(_said(value, size) for value in progress("memory_bytes"))),
        ("Strategy", *shown("strategy")),
        ("Ranks", *shown("ranks")),
        ("Attempts", *("–" if view is None else f"{len(view.attempts):,}" for view in views)),
        ("Started", *("–" if view is None else moment(view.started) for view in views)),
        ("Took", *(_said(value, duration) for value in took)),
    ]


def _said(value: float | None, words: Any) -> str:
    return "–" if value is None else str(words(value))
