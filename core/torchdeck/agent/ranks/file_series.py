"""Files in which the ranks' program reports metrics, followed and written as the ranks' metrics."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from torchdeck.agent.housekeeping import Every
from torchdeck.agent.ranks.file_rows import FileRows
from torchdeck.agent.ranks.script_book import ScriptBook
from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.bounded_file import UnreadableFileError, open_regular
from torchdeck.contract.layout import FORMAT_VERSION, AttemptLayout
from torchdeck.contract.plan.launch_plan import WATCHED, LaunchPlan
from torchdeck.contract.processes import descendants
from torchdeck.trainers.arguments import Arguments, read_arguments
from torchdeck.trainers.files.growing import FileReader
from torchdeck.trainers.files.json_lines import JsonLines
from torchdeck.trainers.files.metric_file_search import Found, Walk, found_at, held_open
from torchdeck.trainers.files.trainer_state import TrainerState
from torchdeck.trainers.reading import Reading

INTERVAL = 0.5
"""Seconds between two looks."""
WALK_SECONDS = 0.05
"""Seconds of one look for the walk through folders, and as much for reading."""
WALK_SHARE = 50.0
"""Pause between two walks, as a multiple of what a walk takes, within the next two."""
WALK_PAUSE = 0.5
WALK_MOST = 30.0
OPEN_INTERVAL = 5.0
"""Seconds between two looks at the files that processes hold open."""
FIRST_SECONDS = 2.0
"""Seconds for the first walk, which notes what was there before."""
LAST_SECONDS = 3.0
"""Seconds for the remaining files after the ranks have ended."""
STOP_LIMIT = 2.0
"""Seconds for a look to end."""
SHORT = 4096
"""Bytes up to which a file may still be within its first line."""
TAIL = 256
"""Bytes by which a file that was there before is known again."""
MOST_FILES = 512
"""Files that are followed at once."""


class Report(NamedTuple):
    """A reading with its source."""

    rank: int
    reading: Reading
    origin: str


class Followed(NamedTuple):
    """A file that is followed."""

    found: Found
    rank: int
    reader: FileReader


class FileSeries:
    """One node's files of one attempt. Works in a thread of its own: file systems may be slow.

    Attributes:
        pids: rank → process; set by the agent's loop.
    """

    def __init__(self, attempt: AttemptLayout, node: str, plan: LaunchPlan, ranks: Sequence[int]) -> None:
        """Begin to follow.

        Args:
            attempt: its folder.
            node: name of this node.
            plan: its slots are filled.
            ranks: of this node.
        """
        self.pids: Mapping[int, int] = {}
        own, home = plan.node(node), attempt.run.home
        working_dir = Path(own.working_dir)
        self._arguments = read_arguments(own.command, working_dir, own.env)
        self._is_watched = plan.kind == WATCHED
        """Another launcher's training: its processes may be unknown."""
        self._noted = attempt.node(node).trainer_files
        self._since = _began(attempt, node)
        folders = [working_dir, *self._arguments.folders, attempt.run.code, attempt.run.checkpoints]
        self._walk = Walk(folders, skipped=[home.root])
        self._rows = {rank: FileRows(attempt.rank(rank).metrics) for rank in ranks}
        self._sizes: dict[str, int] | None = None
        self._tails: dict[str, str] = {}
        self._followed: dict[Path, Followed] = {}
        self._left_out: set[Path] = set()
        self._holders: dict[Path, int] = {}
        self._caught_up: set[Path] = set()
        """Files whose rows of the time before they were found are read."""
        self._reports: deque[Report] = deque(maxlen=10_000)
        self._ending = False
        self._walked = self._walk_due = self._open_due = 0.0
        self._thread = Every(INTERVAL, self._look, "reading the program's files")

    @property
    def arguments(self) -> Arguments:
        """Folders and total named by the arguments."""
        return self._arguments

    def report(self, books: Mapping[int, ScriptBook]) -> None:
        """Hand what was read to the ranks' books."""
        total = self._arguments.total
        if total is not None:
            for book in books.values():
                if book.state.total is None:
                    book.take(Reading(total=total), "arguments", self._arguments.total_origin)
        for _ in range(len(self._reports)):
            rank, reading, origin = self._reports.popleft()
            books[rank].take(reading, "file", origin)

    def end(self, books: Mapping[int, ScriptBook]) -> None:
        """Read the rest, now that the ranks have ended."""
        self._thread.stop(STOP_LIMIT)
        if not self._thread.running:  # else a file system hangs, and would hang this one, too
            until, self._ending = monotonic() + LAST_SECONDS, True
            self._first_walk()
            complete = False
            while not complete and monotonic() < until:
                found, complete = self._walk.look(until)
                self._follow(found)
            for each in self._followed.values():
                each.reader.limit = LAST_SECONDS
            while self._read(until) and monotonic() < until:
                pass
            for rows in self._rows.values():
                rows.close()
        self.report(books)

    def close(self) -> None:
        """Stop at once; the next agent continues."""
        self._thread.stop(STOP_LIMIT)

    def _look(self) -> None:
        """One beat of the thread."""
        now = monotonic()
        self._first_walk()
        if self.pids and now >= self._open_due:
            self._open_due = now + OPEN_INTERVAL
            self._look_at_open_files()
        if now >= self._walk_due:
            found, complete = self._walk.look(now + WALK_SECONDS)
            self._walked += monotonic() - now
            if any(self._is_new(each) and each.path not in self._holders for each in found):
                self._look_at_open_files()  # who writes them
            self._follow(found)
            if complete:
                self._walk_due = monotonic() + max(WALK_PAUSE, min(WALK_SHARE * self._walked, WALK_MOST))
                self._walked = 0.0
        self._read(monotonic() + WALK_SECONDS)

    def _first_walk(self) -> None:
        """Note how long files are that were there before; an agent that takes over finds the note."""
        if self._sizes is not None:
            return
        noted = read_json(self._noted)
        if isinstance(noted, dict):
            self._sizes = _numbers(noted.get("sizes"))
            self._tails = noted["tails"] if isinstance(noted.get("tails"), dict) else {}
            self._holders = {Path(path): rank for path, rank in _numbers(noted.get("ranks")).items()}
            self._follow([each for path in self._holders if (each := found_at(str(path))) is not None])
            return
        found, _ = self._walk.look(monotonic() + FIRST_SECONDS)
        older = [each for each in found if each.changed < self._since][:MOST_FILES]
        self._sizes = {str(each.path): each.size for each in older}
        self._tails = {str(each.path): _tail(each.path, each.size) for each in older}
        self._note()

    def _note(self) -> None:
        """Note for the next agent what the files do not tell."""
        ranks = {str(path): rank for path, rank in self._holders.items()}
        known = {"v": FORMAT_VERSION, "sizes": self._sizes, "tails": self._tails, "ranks": ranks}
        if self._noted.parent.is_dir():
            write_json(self._noted, known, durable=False)

    def _look_at_open_files(self) -> None:
        for rank, pid in dict(self.pids).items():
            tree = [pid, *(process.pid for process in descendants(pid))]
            found = list(held_open(tree))
            new = [each.path for each in found if each.path not in self._holders]
            self._holders.update(dict.fromkeys(new, rank))
            if new:
                self._note()
            self._follow(found)

    def _follow(self, found: Sequence[Found]) -> None:
        """Open readers of files that were written since the attempt began."""
        for each in found:
            if not self._is_new(each) or len(self._followed) >= MOST_FILES:
                continue
            rank = self._rank_of(each)
            if rank is None or not (each.kind.is_certain or self._has_metrics(each)):
                continue
            reader = each.kind.open(each.path, self._since, self._length_before(each.path))
            if isinstance(reader, TrainerState):
                reader.checkpoint = self._arguments.checkpoint
            self._followed[each.path] = Followed(each, rank, reader)

    def _length_before(self, path: Path) -> int:
        """Return how much of a file was there before; 0 if the run has written another in its place."""
        begin = (self._sizes or {}).get(str(path), 0)
        return begin if begin and _tail(path, begin) == self._tails.get(str(path)) else 0

    def _is_new(self, found: Found) -> bool:
        known = found.path in self._followed or found.path in self._left_out
        return found.changed >= self._since and not known

    def _rank_of(self, found: Found) -> int | None:
        """Return the rank that writes a file: by its name, who holds it open, or the first of all."""
        rank = found.kind.rank
        if rank is None:
            unknown = 0 if self.pids or self._ending or self._is_watched else None
            rank = self._holders.get(found.path, unknown)
        return rank if rank in self._rows else None

    def _has_metrics(self, found: Found) -> bool:
        """Return whether a file's first line is a record of metrics."""
        if found.size == 0:
            return False
        first = JsonLines(found.path).first()
        if first is None and found.size < SHORT:
            return False  # its first line may not have ended
        if first is None or first.step is None or not first.values:
            self._left_out.add(found.path)
            return False
        return True

    def _read(self, until: float) -> bool:
        """Read each file's new rows; whether some had more."""
        more = False
        for each in list(self._followed.values()):
            for reading in each.reader.read():
                if reading.time is None and each.found.path not in self._caught_up:
                    reading = replace(reading, time=each.found.changed)
                written = self._rows[each.rank].write(reading, each.found)
                self._reports.append(Report(each.rank, written, each.found.kind.origin))
            more = more or each.reader.more
            if not each.reader.more:
                self._caught_up.add(each.found.path)
            if monotonic() >= until:
                return True
        return more


def _began(attempt: AttemptLayout, node: str) -> float:
    """Return when the attempt began by the clock of a file system, as the times of files are."""
    plans = [path for path in (attempt.node(node).plan, attempt.plan) if path.exists()]
    return plans[0].stat().st_mtime if plans else time.time()


def _tail(path: Path, end: int) -> str:
    """Return a digest of the last bytes before `end`; empty if they cannot be read."""
    try:
        with open_regular(path) as file:
            file.seek(max(0, end - TAIL))
            return hashlib.sha256(file.read(min(end, TAIL))).hexdigest()
    except (OSError, UnreadableFileError):
        return ""


def _numbers(value: object) -> dict[str, int]:
    """Return the whole numbers of a JSON object."""
    return (
        {name: number for name, number in value.items() if isinstance(number, int)}
        if isinstance(value, dict)
        else {}
    )
