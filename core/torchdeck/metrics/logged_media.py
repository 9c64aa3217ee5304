"""Images, texts, histograms and tables that the ranks of a run logged, by name, rank and step."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.media_format import (
    FILE_LIMIT,
    FRAME_BYTES,
    HEADER_LIMIT,
    MEDIA_SUFFIX,
    HistogramBody,
    MediaError,
    MediaRecord,
    TableBody,
    check_body,
    decode_file_header,
    decode_frame,
    decode_record,
    histogram_of,
    png_size,
    table_of,
    text_of,
)

MOST_RECORDS = 200_000
"""Records of a run that are listed."""


@dataclass(frozen=True)
class LoggedMedia:
    """One logged value, without its content."""

    path: Path
    record: MediaRecord
    attempt: int

    @property
    def step(self) -> int:
        return self.record.head.step

    @property
    def kind(self) -> str:
        return self.record.head.kind


Content = bytes | str | HistogramBody | TableBody
"""PNG, text, histogram or table."""

Listing = Mapping[tuple[str, int], Sequence[LoggedMedia]]
"""(name, rank) → values by ascending step, one a step."""


class MediaReader:
    """Reads what is new in a run's files; nothing is read twice. For one thread."""

    def __init__(self, layout: RunLayout) -> None:
        self._layout = layout
        self._files: dict[Path, _File] = {}
        self._listing: Listing = {}
        self.problems: tuple[str, ...] = ()
        """Files that are damaged, each with the reason."""

    def refresh(self) -> Listing:
        """Return all values; the same object if nothing is new.

        Values of an attempt from the first step on that a later attempt logged under the same name are
        left out: that one repeats them.

        Raises:
            OSError: a folder or file cannot be read.
        """
        news = False
        count = sum(len(file.records) for file in self._files.values())
        for path, rank, attempt in self._paths():
            file = self._files.setdefault(path, _File(path, rank, attempt))
            found = file.read_on(MOST_RECORDS - count)
            count += found
            news = news or found > 0
        self.problems = tuple(f"{file.path}: {file.problem}" for file in self._files.values() if file.problem)
        if news:
            self._listing = _listing(self._files.values())
        return self._listing

    def _paths(self) -> Iterator[tuple[Path, int, int]]:
        for attempt in _numbers(self._layout.attempts):
            ranks = self._layout.attempt(attempt).ranks
            for rank in _numbers(ranks):
                folder = self._layout.attempt(attempt).rank(rank).media
                for name in sorted(_names(folder)):
                    if name.endswith(MEDIA_SUFFIX) and not name.startswith("."):
                        yield folder / name, rank, attempt


def read_media(logged: LoggedMedia) -> Content:
    """Return the content of a value.

    Raises:
        MediaError: it is damaged, or not of its kind.
        OSError: it cannot be read.
    """
    record = logged.record
    with open_regular(logged.path) as file:
        file.seek(record.body_at)
        body = file.read(record.body_size)
    check_body(record, body)
    if logged.kind == "image":
        png_size(body)
        return body
    if logged.kind == "text":
        return text_of(body)
    return histogram_of(body) if logged.kind == "histogram" else table_of(body)


@dataclass
class _File:
    """One file, and its records that were read."""

    path: Path
    rank: int
    attempt: int
    at: int = 0
    """Offset up to which it was read."""
    records: list[MediaRecord] = field(default_factory=list)
    problem: str = ""
    """Why no more of it is read; empty if it is not damaged."""

    def read_on(self, most: int) -> int:
        """Read the records that are complete; return their number."""
        if self.problem or most <= 0:
            return 0
        before = len(self.records)
        with open_regular(self.path) as file:
            size = min(os.fstat(file.fileno()).st_size, FILE_LIMIT)
            try:
                if self.at == 0:
                    self.at = decode_file_header(file.read(HEADER_LIMIT)) or 0
                while self.at and len(self.records) - before < most:
                    file.seek(self.at)
                    frame = file.read(FRAME_BYTES)
                    lengths = decode_frame(frame)
                    if lengths is None or self.at + FRAME_BYTES + sum(lengths) > size:
                        break
                    record = decode_record(frame + file.read(lengths[0]), self.at)
                    self.records.append(record)
                    self.at = record.end
            except MediaError as error:
                self.problem = str(error)
        return len(self.records) - before


def _listing(files: Collection[_File]) -> Listing:
    found: dict[tuple[str, int], dict[int, LoggedMedia]] = {}
    firsts: dict[tuple[str, int], int] = {}
    attempts = sorted({file.attempt for file in files}, reverse=True)
    for attempt in attempts:
        steps: dict[tuple[str, int], int] = {}
        for file in files:
            if file.attempt != attempt:
                continue
            for record in file.records:
                key = (record.head.name, file.rank)
                if key in firsts and record.head.step >= firsts[key]:
                    continue
                known = found.setdefault(key, {}).get(record.head.step)
                if known is None or known.record.head.time <= record.head.time:
                    found[key][record.head.step] = LoggedMedia(file.path, record, attempt)
                steps[key] = min(record.head.step, steps.get(key, record.head.step))
        firsts.update(steps)
    return {key: tuple(steps[step] for step in sorted(steps)) for key, steps in sorted(found.items())}


def _numbers(folder: Path) -> list[int]:
    return sorted(int(name) for name in _names(folder) if name.isdecimal() and len(name) < 9)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - only names are needed
    except (FileNotFoundError, NotADirectoryError):
        return []
