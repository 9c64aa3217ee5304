"""Rows in order and in groups: pinned runs first, runs without a value last."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from torchdeck.quantities import counted, metric
from torchdeck.runs.query.expression import Value
from torchdeck.runs.table.columns import value_text
from torchdeck.runs.table.row import Row

Key = Callable[[Row], Value | None]
"""Sort key of a row: numbers before texts; None and NaN come last in either order."""
ALL_BUT = "!"
"""Before a key: runs that are equal in all settings but this one are a group, as `!seed`."""


class Section(NamedTuple):
    """Runs of one group, or all runs."""

    title: str
    """Empty without groups."""
    rows: tuple[Row, ...]


def in_order(rows: Iterable[Row], key: Key, *, descending: bool) -> list[Row]:
    """Return rows sorted by a key, stable; pinned runs first."""
    keyed = [(key(row), row) for row in rows]
    known = [(value, row) for value, row in keyed if value is not None and value == value]
    known.sort(key=lambda pair: (isinstance(pair[0], str), pair[0]), reverse=descending)
    last = [row for value, row in keyed if value is None or value != value]
    ordered = [row for _, row in known] + last
    return sorted(ordered, key=lambda row: not row.note.pinned)


def in_sections(rows: Sequence[Row], group: str) -> tuple[Section, ...]:
    """Return rows in groups, in the order of the first row of each; without `group` in one.

    Args:
        rows: in order.
        group: name of a value as in the filter; `!seed`: all settings but the seed.
    """
    if not group:
        return (Section("", tuple(rows)),)
    found: dict[_Identity, list[Row]] = defaultdict(list)
    identity = _variants(rows, group.removeprefix(ALL_BUT)) if group.startswith(ALL_BUT) else _titles(group)
    for row in rows:
        found[identity(row)].append(row)
    return tuple(Section(title, tuple(members)) for (title, _), members in found.items())


class _Identity(NamedTuple):
    """Equal for rows of one group."""

    title: str
    values: tuple[str | None, ...] = ()
    """Values that the rows have in common."""


def _titles(group: str) -> Callable[[Row], _Identity]:
    def identity(row: Row) -> _Identity:
        value = row.value(group)
        text = value_text(group, value)
        return _Identity(text if group == "name" and text else f"{group} {text}" if text else f"no {group}")

    return identity


def _variants(rows: Sequence[Row], without: str) -> Callable[[Row], _Identity]:
    """Return the identity of a row's group: its program, and the settings that differ between groups."""
    settings = {
        row.entry.id: {
            key: value
            for key, value in row.entry.settings.items()
            if key != without and not key.endswith(f".{without}")
        }
        for row in rows
    }
    values: dict[str, set[str | None]] = defaultdict(set)
    for key in {key for each in settings.values() for key in each}:
        values[key] = {each.get(key) for each in settings.values()}
    several = len({_target(row) for row in rows}) > 1
    differing = sorted(key for key, found in values.items() if len(found) > 1)
    ends = Counter(_end(key) for key in differing)

    def identity(row: Row) -> _Identity:
        own = settings[row.entry.id]
        parts = [
            f"{_end(key) if ends[_end(key)] == 1 else key} {own[key]}" for key in differing if key in own
        ]
        target = _target(row) if several else ""
        title = ", ".join(filter(None, (target, *parts))) or "the same settings"
        return _Identity(title, (target, *(own.get(key) for key in differing)))

    return identity


def _end(key: str) -> str:
    return key.rpartition(".")[2]


def _target(row: Row) -> str:
    return "" if row.entry.view is None else row.entry.view.target


class Summary(NamedTuple):
    """Mean and sample standard deviation of the known numbers of a group."""

    mean: float
    deviation: float | None
    """None for a single number."""
    runs: int

    @property
    def text(self) -> str:
        """`2.3142 ± 0.0213`, or the number alone."""
        return (
            metric(self.mean) if self.deviation is None else f"{metric(self.mean)} ± {metric(self.deviation)}"
        )

    @property
    def exact(self) -> str:
        """All digits, with the number of runs."""
        deviation = "" if self.deviation is None else f" ± {self.deviation!r}"
        return f"mean {self.mean!r}{deviation} of {counted(self.runs, 'run')}"


def summary(values: Iterable[Value | None]) -> Summary | None:
    """Return mean and deviation of numbers; None without one. NaN, infinity and texts do not count."""
    numbers = [
        float(value) for value in values if isinstance(value, int | float) and abs(value) < float("inf")
    ]
    if not numbers:
        return None
    deviation = statistics.stdev(numbers) if len(numbers) > 1 else None
    return Summary(statistics.fmean(numbers), deviation, len(numbers))


def in_common(texts: Iterable[str]) -> str:
    """Return the text that all have; else empty."""
    found = ""
    for number, text in enumerate(texts):
        if number and text != found:
            return ""
        found = text
    return found
