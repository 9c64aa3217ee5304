"""All metrics of a run: finds, follows and merges its segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from torchdeck.contract.atomic import read_json
from torchdeck.contract.file_names import FolderNames
from torchdeck.contract.journal import JournalReader, reader_of_node
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.segment_format import SEGMENT_SUFFIX, SOURCES
from torchdeck.metrics.owned_segment import OwnedSegment, rows_of
from torchdeck.metrics.segment import TIME
from torchdeck.metrics.series import Latest, Owner, Series
from torchdeck.metrics.smoothing import Begin
from torchdeck.metrics.window import NO_LIMIT, Window, WindowBuilder


class RunMetrics:
    """Metrics in a run directory, of ranks (by number) and of nodes (by name).

    Nothing is read before the first `refresh`, and nothing new is seen without one. A refresh costs in
    proportion to what was appended. Use it from one thread at a time.

    If the same metric of the same rank comes from several sources, the script's log has priority over the
    trainer's, and that over values parsed from stdout.

    Attributes:
        until: unix seconds after which rows are ignored; None for all rows. (`refresh`, `names` and `latest`
            ignore this limit.)
    """

    def __init__(self, run_dir: Path) -> None:
        self._layout = RunLayout(run_dir)
        self._segments: dict[Path, OwnedSegment] = {}
        self._series: dict[str, dict[Owner, list[OwnedSegment]]] = {}
        self._names_in = FolderNames()
        self._starts = AttemptStarts(self._layout)
        self.until: float | None = None

    def refresh(self) -> int:
        """Find new segments and new rows. Return the number of new rows.

        Raises:
            NewerFormatError: the run's journal is from a newer Torchdeck.
        """
        self._starts.refresh(self._names_in(self._layout.nodes))
        for folder, owner, attempt in self._folders():
            for path in self._segment_files(folder):
                if path not in self._segments:
                    self._segments[path] = OwnedSegment(path, owner, attempt)
        return sum(self._follow(segment) for segment in self._segments.values())

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each file that cannot be read (damaged, foreign, or from a newer Torchdeck)."""
        return tuple(segment.problem for segment in self._segments.values() if segment.problem)

    def names(self) -> list[str]:
        """Return the names of the ranks' metrics, sorted."""
        return sorted(name for name in self._series if self.ranks(name))

    def ranks(self, name: str) -> list[int]:
        """Return the ranks that have rows of the metric, ascending."""
        return sorted(owner for owner in self._series.get(name, ()) if isinstance(owner, int))

    def system_names(self) -> list[str]:
        """Return the names of the nodes' metrics, sorted."""
        return sorted(name for name in self._series if self.nodes(name))

    def nodes(self, name: str) -> list[str]:
        """Return the nodes that have rows of the metric, sorted."""
        return sorted(owner for owner in self._series.get(name, ()) if isinstance(owner, str))

    def latest(self, name: str, owner: Owner) -> Latest | None:
        """Return the newest row; None if there is none. Costs nothing but the refresh before it."""
        rows = [
            Latest(
                int(segment.last[0]), segment.last[TIME], segment.last[segment.column(name)], segment.attempt
            )
            for segment in self._believed(name, owner)
            if segment.last is not None
        ]
        return max(rows, key=lambda row: (row.attempt, row.time, row.step), default=None)

    def series(self, name: str, owner: Owner, *, effective: bool = False) -> Series:
        """Read every row of a metric from the files.

        Args:
            name: the metric.
            owner: a rank's number or a node's name.
            effective: leave out rows of an attempt after the step that a later attempt restored: the rest is
                the history of the current weights.

        Raises:
            OSError: a file cannot be read.
        """
        parts = self.parts(name, owner, effective=effective)
        return Series.joined([rows_of(segment, name, limit, 0, segment.rows) for segment, limit in parts])

    def parts(self, name: str, owner: Owner, *, effective: bool = False) -> list[tuple[OwnedSegment, int]]:
        """Return the segments that hold the metric, with the last step that counts of each; in order of
        attempts.
        """
        segments = self._believed(name, owner)
        limits = self._limits(segments) if effective else {}
        parts = [(segment, limits.get(segment.attempt, NO_LIMIT)) for segment in segments]
        if self.until is None:
            return parts
        known = [(segment, limit, segment.step_at(self.until)) for segment, limit in parts]
        return [(segment, min(limit, step)) for segment, limit, step in known if step is not None]

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
        log: bool = False,
        smoothing: float = 0.0,
    ) -> Window:
        """Reduce a range of a metric to the minimum and maximum of each column.

        Exact: each row counts in the one column that contains its x. The first window of a metric reads its
        rows once (0.1 s for ten million); later ones read about 256 rows per column.

        Args:
            name: the metric.
            owner: a rank's number or a node's name.
            x0: minimum x.
            x1: maximum x.
            columns: number of columns of equal width.
            axis: meaning of x: `step`, or `time` in unix seconds.
            effective: as for `series`.
            log: columns of equal width in the logarithm of x; x0 is above 0.
            smoothing: weight of the moving average (`smoothing.averages`) to use instead of the values; 0
                for the values. The average of an attempt continues from the step that it restored.

        Raises:
            ValueError: the range is invalid, there is no column, no such axis, or no such weight.
            OSError: a file cannot be read.
        """
        builder = WindowBuilder(x0, x1, columns, axis, log=log)
        parts = self.parts(name, owner, effective=effective)
        begins = self._begins([part for part, _ in parts], name, smoothing) if smoothing else {}
        for segment, limit in parts:
            smoothed = segment.smoothed(name, smoothing, begins[segment]) if smoothing else None
            builder.add(segment, segment.index, name, limit, smoothed)
        return builder.window()

    def extent(self, name: str, owner: Owner, *, axis: str = "step") -> tuple[float, float] | None:
        """Return the minimum and maximum x of a metric; None without rows.

        Raises:
            ValueError: there is no such axis.
            OSError: a file cannot be read.
        """
        found = []
        for segment, limit in self.parts(name, owner):
            extent = segment.index.extent(name, axis)
            if extent is not None:
                end = limit if axis == "step" else NO_LIMIT if self.until is None else self.until
                found.append((extent[0], min(extent[1], float(end))))
        return (min(low for low, _ in found), max(high for _, high in found)) if found else None

    def attempt_starts(self, name: str, owner: Owner) -> tuple[float, ...]:
        """Return the unix times at which each attempt except the first wrote its first row of a metric,
        ascending.

        Raises:
            OSError: a file cannot be read.
        """
        firsts: dict[int, float] = {}
        for segment, _ in self.parts(name, owner):
            first = segment.first_time
            if first is not None:
                firsts.setdefault(segment.attempt, first)
        return tuple(sorted(firsts.values())[1:])

    def _folders(self) -> Iterator[tuple[Path, Owner, int]]:
        """Yield folders that may contain segments, their owner, and the attempt (0 for nodes)."""
        numbers = sorted(int(name) for name in self._names_in(self._layout.attempts) if name.isdecimal())
        for number in numbers:
            attempt = self._layout.attempt(number)
            for name in self._names_in(attempt.ranks):
                if name.isdecimal():
                    yield attempt.rank(int(name)).metrics, int(name), number
        for name in self._names_in(self._layout.nodes):
            yield self._layout.node(name).system, name, 0

    def _segment_files(self, folder: Path) -> Iterator[Path]:
        return (folder / name for name in self._names_in(folder) if name.endswith(SEGMENT_SUFFIX))

    def _follow(self, segment: OwnedSegment) -> int:
        had_rows = segment.rows > 0
        new = segment.refresh()
        if new and not had_rows:
            for key in segment.keys:
                if not key.startswith("_"):
                    self._list(key, segment)
        return new

    def _list(self, key: str, segment: OwnedSegment) -> None:
        listed = self._series.setdefault(key, {}).setdefault(segment.owner, [])
        if segment not in listed:
            listed.append(segment)
            listed.sort(key=lambda item: (item.attempt, item.created))

    def _believed(self, name: str, owner: Owner) -> list[OwnedSegment]:
        """Return the segments of the most trusted source that has the metric, in the order of attempts.

        Files may be written at saves only: while they lag behind what is printed, that counts.
        """
        segments = [
            item for item in self._series.get(name, {}).get(owner, ()) if item.rows and not item.problem
        ]
        trusts = sorted({item.trust for item in segments})
        best = trusts[0] if trusts else 0
        if len(trusts) > 1 and best == _FILE and _lags(segments, best):
            best = trusts[1]
        return [item for item in segments if item.trust == best]

    def _limits(self, segments: list[OwnedSegment]) -> dict[int, int]:
        """Return the last step of each attempt that a later attempt did not repeat."""
        limits: dict[int, int] = {}
        kept = NO_LIMIT
        for attempt in sorted({item.attempt for item in segments} | self._starts.known(), reverse=True):
            limits[attempt] = kept
            kept = min(kept, self._restored(attempt, segments))
        return limits

    def _restored(self, attempt: int, segments: list[OwnedSegment]) -> int:
        """Return the step from which an attempt continued if only its own rows show it: the one before its
        first.
        """
        restored = self._starts.restored_step(attempt)
        if restored is None:
            firsts = [item.first_step for item in segments if item.attempt == attempt]
            restored = min((first - 1 for first in firsts if first is not None), default=NO_LIMIT)
        return restored

    def _begins(self, segments: list[OwnedSegment], name: str, weight: float) -> dict[OwnedSegment, Begin]:
        """Return the state from which each segment's moving average continues: the last row that its attempt
        restored.
        """
        begins: dict[OwnedSegment, Begin] = {}
        for number, segment in enumerate(segments):
            before = segments[:number]
            until = NO_LIMIT
            if before and before[-1].attempt != segment.attempt:
                until = self._restored(segment.attempt, segments)
            origin = next((item for item in reversed(before) if _begins_by(item, until)), None)
            begins[segment] = (
                (0.0, 0) if origin is None else origin.smoothed_until(name, until, weight, begins[origin])
            )
        return begins


_FILE = SOURCES.index("file")
_LAG = 2.0
"""Intervals between rows by which a file may be behind."""


def _lags(segments: list[OwnedSegment], trust: int) -> bool:
    """Return whether a source is behind the others in the newest attempt."""
    newest = max(item.attempt for item in segments)
    ends = [
        (item, int(item.last[0])) for item in segments if item.attempt == newest and item.last is not None
    ]
    own = [(item, end) for item, end in ends if item.trust == trust]
    others = [end for item, end in ends if item.trust != trust]
    if not own or not others:
        return bool(others)
    last = max(end for _, end in own)
    firsts = [item.first_step for item, _ in own if item.first_step is not None]
    rows = sum(item.rows for item, _ in own)
    interval = (last - min(firsts, default=last)) / max(1, rows - 1)
    return max(others) > last + _LAG * max(1.0, interval)


def _begins_by(segment: OwnedSegment, step: int) -> bool:
    first = segment.first_step
    return first is not None and first <= step


RESTORED_NOTHING = -1
"""Restored step of an attempt that started from scratch: no row of an earlier attempt counts."""
_LARGEST_STEP = 2**63


class AttemptStarts:
    """Starts of attempts according to the nodes' journals."""

    def __init__(self, layout: RunLayout) -> None:
        self._layout = layout
        self._journals: dict[str, JournalReader] = {}
        self._restored: dict[int, int | None] = {}
        self._begins_afresh: bool | None = None

    def refresh(self, nodes: Iterable[str]) -> None:
        """Process new journal lines of `nodes`.

        Raises:
            NewerFormatError: this machine's journal is from a newer Torchdeck.
        """
        for name in nodes:
            reader = self._journals.setdefault(name, reader_of_node(self._layout.node(name)))
            for event in reader.read_new():
                attempt, step = event.fields.get("attempt"), event.fields.get("resume_step")
                if event.name == "attempt_started" and isinstance(attempt, int):
                    restored = isinstance(step, int) and abs(step) < _LARGEST_STEP
                    self._restored[attempt] = step if restored else None

    def restored_step(self, attempt: int) -> int | None:
        """Return the step of the checkpoint with which `attempt` began; None if only its own rows show it.

        A recipe that restored nothing starts from scratch (`RESTORED_NOTHING`). Other scripts may restore by
        themselves.
        """
        step = self._restored.get(attempt)
        if step is None and attempt in self._restored and self._is_recipe():
            return RESTORED_NOTHING
        return step

    def _is_recipe(self) -> bool:
        if self._begins_afresh is None:
            plan = read_json(self._layout.plan)
            self._begins_afresh = isinstance(plan, dict) and plan.get("kind") == "recipe"
        return self._begins_afresh

    def known(self) -> set[int]:
        """Attempts that started."""
        return set(self._restored)
