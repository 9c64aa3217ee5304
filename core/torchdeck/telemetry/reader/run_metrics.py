"""All metrics of a run: segments found, followed and merged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from torchdeck.rundir.layout import RunLayout
from torchdeck.telemetry.reader.attempts import AttemptStarts
from torchdeck.telemetry.reader.blocks import BlockIndex
from torchdeck.telemetry.reader.segment import TIME, Segment, steps_of
from torchdeck.telemetry.reader.series import Latest, Owner, Series
from torchdeck.telemetry.reader.window import NO_LIMIT, Window, WindowBuilder
from torchdeck.telemetry.segment_format import SEGMENT_SUFFIX, SOURCES


class RunMetrics:
    """The metrics in a run directory, of ranks (by number) and of nodes (by name).

    Nothing is read before the first `refresh`, and nothing new is seen without one. A refresh costs in
    proportion to what was appended. For one thread at a time.

    Where the same metric of the same rank comes from several sources, what the script logged is believed
    over what the trainer wrote, and that over what was read from its stdout.
    """

    def __init__(self, run_dir: Path) -> None:
        self._layout = RunLayout(run_dir)
        self._segments: dict[Path, _OwnedSegment] = {}
        self._series: dict[str, dict[Owner, list[_OwnedSegment]]] = {}
        self._starts = AttemptStarts(self._layout)

    def refresh(self) -> int:
        """Find new segments and new rows; the number of new rows.

        Raises:
            NewerFormatError: the run's journal is from a newer Torchdeck.
        """
        self._starts.refresh()
        for folder, owner, attempt in self._folders():
            for path in _segment_files(folder):
                if path not in self._segments:
                    self._segments[path] = _OwnedSegment(path, owner, attempt)
        return sum(self._follow(segment) for segment in self._segments.values())

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each file that cannot be read (damaged, foreign, or from a newer Torchdeck)."""
        return tuple(segment.problem for segment in self._segments.values() if segment.problem)

    def names(self) -> list[str]:
        """Names of the ranks' metrics, sorted."""
        return sorted(name for name in self._series if self.ranks(name))

    def ranks(self, name: str) -> list[int]:
        """Ranks that have rows of the metric, ascending."""
        return sorted(owner for owner in self._series.get(name, ()) if isinstance(owner, int))

    def system_names(self) -> list[str]:
        """Names of the nodes' metrics, sorted."""
        return sorted(name for name in self._series if self.nodes(name))

    def nodes(self, name: str) -> list[str]:
        """Nodes that have rows of the metric, sorted."""
        return sorted(owner for owner in self._series.get(name, ()) if isinstance(owner, str))

    def latest(self, name: str, owner: Owner) -> Latest | None:
        """The newest row; None when there is none. Costs nothing but the refresh before it."""
        rows = [
            Latest(
                int(segment.last[0]), segment.last[TIME], segment.last[segment.column(name)], segment.attempt
            )
            for segment in self._believed(name, owner)
            if segment.last is not None
        ]
        return max(rows, key=lambda row: (row.attempt, row.time), default=None)

    def series(self, name: str, owner: Owner, *, effective: bool = False) -> Series:
        """Every row of a metric, read from the files now.

        Args:
            name: the metric.
            owner: a rank's number or a node's name.
            effective: leave out rows of an attempt after the step that a later attempt restored: what is
                left is the history of the weights that went on.

        Raises:
            OSError: a file cannot be read.
        """
        segments = self._believed(name, owner)
        limits = self._limits(segments) if effective else {}
        return Series.joined([_rows_of(segment, name, limits.get(segment.attempt)) for segment in segments])

    def window(
        self,
        name: str,
        owner: Owner,
        x0: float,
        x1: float,
        columns: int,
        *,
        axis: str = "step",
        effective: bool = False,
    ) -> Window:
        """A range of a metric, reduced to the least and greatest value of each column.

        Exact: each row counts in the one column its x lies in. The first window of a metric reads its rows
        once (0.1 s for ten million); later ones read some 256 rows a column.

        Args:
            name: the metric.
            owner: a rank's number or a node's name.
            x0: least x.
            x1: greatest x.
            columns: how many columns of equal width.
            axis: what x is: `step`, or `time` in unix seconds.
            effective: as for `series`.

        Raises:
            ValueError: the range is no range, there is no column, or no such axis.
            OSError: a file cannot be read.
        """
        builder = WindowBuilder(x0, x1, columns, axis)
        segments = self._believed(name, owner)
        limits = self._limits(segments) if effective else {}
        for segment in segments:
            builder.add(segment, segment.index, name, limits.get(segment.attempt, NO_LIMIT))
        return builder.window()

    def extent(self, name: str, owner: Owner, *, axis: str = "step") -> tuple[float, float] | None:
        """Least and greatest x of a metric; None without rows.

        Raises:
            ValueError: there is no such axis.
            OSError: a file cannot be read.
        """
        parts = [segment.index.extent(name, axis) for segment in self._believed(name, owner)]
        found = [part for part in parts if part is not None]
        return (min(low for low, _ in found), max(high for _, high in found)) if found else None

    def _folders(self) -> Iterator[tuple[Path, Owner, int]]:
        """Folders that may hold segments, whose they are, and the attempt (0 for nodes)."""
        for number in self._layout.attempt_numbers():
            attempt = self._layout.attempt(number)
            for name in _names_in(attempt.ranks):
                if name.isdecimal():
                    yield attempt.rank(int(name)).metrics, int(name), number
        for name in _names_in(self._layout.nodes):
            yield self._layout.node(name).system, name, 0

    def _follow(self, segment: _OwnedSegment) -> int:
        had_rows = segment.rows > 0
        new = segment.refresh()
        if new and not had_rows:
            for key in segment.keys:
                if not key.startswith("_"):
                    self._list(key, segment)
        return new

    def _list(self, key: str, segment: _OwnedSegment) -> None:
        listed = self._series.setdefault(key, {}).setdefault(segment.owner, [])
        if segment not in listed:
            listed.append(segment)
            listed.sort(key=lambda item: (item.attempt, item.created))

    def _believed(self, name: str, owner: Owner) -> list[_OwnedSegment]:
        """Segments of the most trusted source that has the metric, in the order of attempts."""
        segments = [
            item for item in self._series.get(name, {}).get(owner, ()) if item.rows and not item.problem
        ]
        best = min((item.trust for item in segments), default=0)
        return [item for item in segments if item.trust == best]

    def _limits(self, segments: list[_OwnedSegment]) -> dict[int, int]:
        """For each attempt, the last step that a later attempt did not do again."""
        limits: dict[int, int] = {}
        kept = NO_LIMIT
        for attempt in sorted({item.attempt for item in segments} | self._starts.known(), reverse=True):
            limits[attempt] = kept
            restored = self._starts.restored_step(attempt)
            if restored is None:
                firsts = [item.first_step for item in segments if item.attempt == attempt]
                restored = min((first - 1 for first in firsts if first is not None), default=NO_LIMIT)
            kept = min(kept, restored)
        return limits


class _OwnedSegment(Segment):
    """A segment, whose it is, and its level of detail."""

    def __init__(self, path: Path, owner: Owner, attempt: int) -> None:
        super().__init__(path)
        self.owner = owner
        self.attempt = attempt
        self.index = BlockIndex(self)

    @property
    def created(self) -> float:
        return self.header.created if self.header else 0.0

    @property
    def trust(self) -> int:
        """Place in `SOURCES`; an unknown source comes last."""
        source = self.header.source if self.header else ""
        return SOURCES.index(source) if source in SOURCES else len(SOURCES)


def _rows_of(segment: _OwnedSegment, name: str, limit: int | None) -> Series:
    rows = segment.read(0, segment.rows)
    attempts = np.full(len(rows), segment.attempt, np.int32)
    column = np.ascontiguousarray(rows[:, segment.column(name)])
    part = Series(steps_of(rows).copy(), rows[:, TIME].copy(), column, attempts)
    kept = part.times != 0
    if limit is not None:
        kept &= part.steps <= limit
    return part if kept.all() else part.picked(kept)


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _segment_files(folder: Path) -> Iterator[Path]:
    return (folder / name for name in _names_in(folder) if name.endswith(SEGMENT_SUFFIX))
