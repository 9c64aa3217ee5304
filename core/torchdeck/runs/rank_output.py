"""Output of the ranks, followed through all attempts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from torchdeck.contract.layout import RunLayout

STREAMS = ("stdout", "stderr")
CHUNK = 1 << 20
"""Bytes read from one file per poll: a burst takes several polls."""
LONGEST_LINE = 1 << 16
"""Bytes after which a line without an end is returned in pieces."""


@dataclass(frozen=True)
class OutputLine:
    """One line printed by a rank."""

    attempt: int
    rank: int
    stream: str
    """`stdout` or `stderr`."""
    text: str


class LogTail:
    """One log file, line by line."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        """Follow a log; `offset`: bytes at its beginning that are left out."""
        self._path = path
        self._rest = b""
        self._offset = offset

    def read_new(self) -> list[str]:
        """Return the whole lines added since the last poll, without their ends."""
        return [as_printed(line) for line in self.read_block().split(b"\n")[:-1]]

    def read_block(self) -> bytes:
        """Return the same as bytes, each line with its end; empty if nothing was added."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                content = file.read(CHUNK)
        except FileNotFoundError:
            return b""
        self._offset += len(content)
        whole, end, self._rest = (self._rest + content).rpartition(b"\n")
        if len(self._rest) < LONGEST_LINE:
            return whole + end
        piece, self._rest = self._rest, b""
        return b"%b%b%b\n" % (whole, end, piece)

    @property
    def behind(self) -> bool:
        """Whether the file has more than was read."""
        try:
            return self._path.stat().st_size > self._offset
        except FileNotFoundError:
            return False

    def rest(self) -> list[str]:
        """Return the text after the last line end, once the file is complete."""
        rest, self._rest = self._rest, b""
        return [as_printed(rest)] if rest else []


def as_printed(line: bytes) -> str:
    """Return a line as a terminal would show it: progress bars overwrite it with carriage returns."""
    return overwritten(line.decode("utf-8", "replace"))


def overwritten(text: str) -> str:
    """Return the text that a terminal shows of a line in the end."""
    return text.rstrip("\r").rpartition("\r")[2]


class OutputFollower:
    """All ranks' output in the order of attempts; each poll returns what was added since the last."""

    def __init__(
        self,
        layout: RunLayout,
        *,
        streams: tuple[str, ...] = STREAMS,
        rank: int | None = None,
        positions: Mapping[tuple[int, int, str], int] | None = None,
        after_attempt: int = 0,
    ) -> None:
        """Follow output.

        Args:
            layout: layout of the run.
            streams: some of `STREAMS`.
            rank: rank whose output is followed; None: all ranks.
            positions: (attempt, rank, stream) → bytes of a log that are left out.
            after_attempt: number of the last attempt that is left out.
        """
        self._layout = layout
        self._streams = streams
        self._rank = rank
        self._positions = positions or {}
        self._after = after_attempt
        self._tails: dict[tuple[int, int, str], LogTail] = {}

    def read_new(self) -> list[OutputLine]:
        """Return the whole lines added since the last poll."""
        self._discover()
        return [
            OutputLine(attempt, rank, stream, text)
            for (attempt, rank, stream), tail in self._tails.items()
            for text in tail.read_new()
        ]

    def read_rest(self) -> Iterator[OutputLine]:
        """Yield everything that is left once the output is complete, including unfinished last lines."""
        yield from self.read_new()
        for (attempt, rank, stream), tail in self._tails.items():
            while tail.behind:
                for text in tail.read_new():
                    yield OutputLine(attempt, rank, stream, text)
            for text in tail.rest():
                yield OutputLine(attempt, rank, stream, text)

    def read_rest_blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the same as `read_rest`, as (rank, whole lines with their ends as the rank printed them)."""
        self._discover()
        for (_, rank, _), tail in self._tails.items():
            while block := tail.read_block():
                yield rank, block
            for text in tail.rest():
                yield rank, f"{text}\n".encode()

    def _discover(self) -> None:
        known = {attempt for attempt, _, _ in self._tails}
        newest = max(known, default=0)
        for number in self._layout.attempt_numbers():
            if number < newest or number <= self._after:
                continue  # an earlier attempt starts no further ranks
            for rank in rank_numbers(self._layout.attempt(number).ranks):
                if self._rank in (None, rank):
                    self._open(number, rank)

    def _open(self, attempt: int, rank: int) -> None:
        files = self._layout.attempt(attempt).rank(rank)
        for stream in self._streams:
            path = files.stdout if stream == "stdout" else files.stderr
            key = (attempt, rank, stream)
            if key not in self._tails and path.exists():
                self._tails[key] = LogTail(path, self._positions.get(key, 0))


def rank_numbers(folder: Path) -> list[int]:
    """Return the ranks that have a folder in an attempt's, ascending."""
    try:
        return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal())
    except FileNotFoundError:
        return []
