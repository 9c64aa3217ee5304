"""Numbers that a script prints, followed through its two logs and written as metrics, each line once."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

from torchdeck.agent.ranks.script_book import ScriptBook
from torchdeck.contract.log_times import LogClock
from torchdeck.contract.metrics.segment_format import (
    SEGMENT_SUFFIX,
    STEP_BYTES,
    TIME_BYTES,
    VALUE_BYTES,
    SegmentError,
    decode_header,
)
from torchdeck.contract.rank_layout import RankLayout
from torchdeck.telemetry.writer import MetricsWriter
from torchdeck.trainers.reading import Reading
from torchdeck.trainers.text.line import LINE_LIMIT
from torchdeck.trainers.text.lines import UNENDED_LIMIT, split_lines
from torchdeck.trainers.text.progress_bars import find_bar
from torchdeck.trainers.text.rank_output import OutputReader, Printed
from torchdeck.trainers.text.user_patterns import LineParser

OFFSET_KEY = "_offset"
"""Hidden column: byte of the log after the line a row came from, so that the next agent continues there."""
CHUNK = 2 * UNENDED_LIMIT
"""Bytes read at a time; more than a line may have."""
HEADER_BYTES = 1 << 20
"""Longest header that is looked at; ours name a handful of metrics."""
HOLES = 64
"""Rows at the end that a power cut may have left empty."""
KEPT = 64 * 1024
"""Bytes at the end of a log that are still parsed after lines were left out."""
_OWN_LAYERS = ("stdout", "stderr")


class PrintedSeries:
    """One rank's stdout and stderr."""

    def __init__(self, rank: RankLayout, patterns: Sequence[str], book: ScriptBook | None = None) -> None:
        """Follow both logs from the last row of an earlier agent.

        Args:
            rank: files of the rank.
            patterns: the user's own, for both logs.
            book: takes what the output says of progress.
        """
        self._book = book
        out, step = written_position(rank.metrics)
        err, other_step = written_position(rank.metrics, "stderr")
        last = other_step if step is None else step
        self._reader = OutputReader(LineParser(patterns), last, other_step if err else None)
        self._out = _Log(rank.stdout, LogClock(rank.log_times, "stdout"), out)
        self._err = _Log(rank.stderr, LogClock(rank.log_times, "stderr"), err)
        if out and not err:  # bars without values leave no rows: the latest ones are enough
            self._err.skip()
        self._writers = {name: MetricsWriter(rank.metrics, source=name) for name in _OWN_LAYERS}
        self._news: dict[tuple[str, str], Reading] = {}

    def follow(self, until: float) -> bool:
        """Parse what was printed since the last call; whether ended lines are left at `until`.

        Args:
            until: monotonic seconds; the line that is being parsed then is the last one.
        """
        now = time.time()
        behind = self._follow(until, now)
        if not behind:
            for name, log in (("stderr", self._err), ("stdout", self._out)):
                bar = log.unended_bar()
                if bar:
                    self._take(self._reader.read(bar, name, log.offset, now, self._known_total))
        self._take(self._reader.settle(now, self._epoch_steps))
        self._report()
        return behind

    def skip(self) -> bool:
        """Leave out all but the last lines of each log; whether there were more."""
        return any([self._out.skip(), self._err.skip()])

    def close(self) -> None:
        """Write what still waited: no more output will come."""
        self._take(self._reader.end(self._epoch_steps))
        self._report()

    def _follow(self, until: float, now: float) -> bool:
        # bars first: they tell the steps of lines
        logs = [("stderr", self._err), ("stdout", self._out)]
        waiting = [(name, log) for name, log in logs if log.has_more]
        while waiting:
            name, log = min(waiting, key=lambda item: item[1].reached)
            before = log.offset
            for line, end in log.lines(now):
                self._take(self._reader.read(line, name, end, log.reached, self._known_total))
                if monotonic() >= until:
                    break
            if monotonic() >= until:
                return any(log.is_behind for _, log in logs)
            if log.offset == before or not log.has_more:
                waiting.remove((name, log))
        return False

    @property
    def _known_total(self) -> int | None:
        """Number of steps by another source than the output."""
        if self._book is None:
            return None
        origin = self._book.state.origins.get("total")
        return None if origin is None or origin.layer in _OWN_LAYERS else self._book.state.total

    @property
    def _epoch_steps(self) -> float | None:
        """Steps of an epoch, if a file reports both at once; callbacks report more steps than epochs."""
        if self._book is None:
            return None
        state = self._book.state
        origin = state.origins.get("step")
        if origin is None or origin != state.origins.get("epoch") or origin.layer != "file":
            return None
        return state.step / state.epoch if state.step and state.epoch else None

    def _take(self, found: Iterable[Printed]) -> None:
        for printed in found:
            reading = printed.reading
            if reading.values:
                row = {**reading.values, OFFSET_KEY: printed.end}
                self._writers[printed.stream].log(row, reading.step, at=reading.time)
            source = (printed.stream, printed.origin)
            before = self._news.pop(source, None)
            news = reading if printed.has_own_step else replace(reading, step=None, total=None)
            self._news[source] = news if before is None else _merged(before, news)

    def _report(self) -> None:
        if self._book is not None:
            for (stream, origin), reading in self._news.items():
                self._book.take(reading, stream, origin)
        self._news.clear()


def _merged(before: Reading, news: Reading) -> Reading:
    """Return what both say; `news` where they differ."""
    return replace(
        news,
        values={**before.values, **news.values},
        step=before.step if news.step is None else news.step,
        total=before.total if news.total is None else news.total,
        epoch=before.epoch if news.epoch is None else news.epoch,
        phase=before.phase if news.phase is None else news.phase,
    )


class _Log:
    """One growing log."""

    def __init__(self, path: Path, clock: LogClock, offset: int) -> None:
        self._path = path
        self._clock = clock
        self.offset = offset
        """Bytes parsed."""
        self.reached = 0.0
        """Unix time at which the last parsed line was printed."""
        self._until = 0
        """Bytes that were printed at `reached`."""

    @property
    def has_more(self) -> bool:
        """Whether there is output that was not parsed."""
        return self._length() > self.offset

    @property
    def is_behind(self) -> bool:
        """Whether there are ended lines that were not parsed."""
        if self._length() - self.offset >= UNENDED_LIMIT:
            return True
        chunk = self._chunk()
        return b"\n" in chunk or b"\r" in chunk

    def lines(self, now: float) -> Iterator[tuple[str, int]]:
        """Yield ended lines of the next chunk, and the byte after each, which `offset` then is.

        Args:
            now: unix time of output whose time was not recorded yet.
        """
        start, used, chunk = self.offset, 0, self._chunk()
        for line, used in split_lines(chunk):
            end = start + used
            self._tell_time(end, now)
            self.offset = end
            yield line, end
        if used == 0 and len(chunk) == CHUNK:  # nothing but empty lines
            used = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            self.offset = start + used

    def unended_bar(self) -> str:
        """Return the bar that ends the log; empty if there is none. The carriage return after it comes with
        its next drawing.
        """
        length = self._length() - self.offset
        if not 0 < length < UNENDED_LIMIT:
            return ""
        text = self._chunk().decode("utf-8", "replace").rpartition("\r")[2]
        is_whole = text.removesuffix("\x1b[A").rstrip().endswith("]")
        return text if is_whole and find_bar(text[-LINE_LIMIT:]) is not None else ""

    def _tell_time(self, end: int, now: float) -> None:
        if end <= self._until:
            return
        try:
            row = self._clock.row_after(end - 1)
        except OSError:
            row = None
        self.reached, self._until = (now, self._length()) if row is None else row

    def skip(self) -> bool:
        """Leave out all but the last bytes; whether there were more."""
        target = self._length() - KEPT
        if target <= self.offset:
            return False
        self.offset = target
        chunk = self._chunk()
        # what is parsed next begins with a whole line
        ends = [at for at in (chunk.find(b"\n"), chunk.find(b"\r")) if at >= 0]
        self.offset += min(ends, default=-1) + 1
        return True

    def _length(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def _chunk(self) -> bytes:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.pread(descriptor, CHUNK, self.offset)
        finally:
            os.close(descriptor)


def written_position(folder: Path, source: str = "stdout") -> tuple[int, int | None]:
    """(offset, step) of the furthest row from a log in `folder`; (0, None) when there is none."""
    paths = folder.glob(f"*{SEGMENT_SUFFIX}")
    rows = [row for path in paths if (row := _last_row(path, source)) is not None]
    return max(rows, default=(0, None))


def _last_row(path: Path, source: str) -> tuple[int, int] | None:
    try:
        with path.open("rb") as file:
            header = decode_header(file.read(HEADER_BYTES))
            if header is None or header.source != source or OFFSET_KEY not in header.keys:
                return None
            rows = (path.stat().st_size - header.length) // header.row_bytes
            column = STEP_BYTES + TIME_BYTES + VALUE_BYTES * header.keys.index(OFFSET_KEY)
            for row in range(rows - 1, max(-1, rows - HOLES), -1):
                file.seek(header.length + row * header.row_bytes)
                content = file.read(header.row_bytes)
                (offset,) = struct.unpack_from("<d", content, column)
                if offset > 0:
                    return int(offset), struct.unpack_from("<q", content)[0]
    except (OSError, SegmentError, struct.error):
        return None
    return None
