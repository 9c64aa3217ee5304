"""State of the ranks of one attempt on this node, read from the files they write."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from torchdeck.agent.doctor.stalls import Standing
from torchdeck.agent.own_clock import OwnClock
from torchdeck.agent.ranks.failures import read_exit
from torchdeck.agent.ranks.script_book import ScriptBook
from torchdeck.contract.bounded_file import read_number
from torchdeck.contract.doctor.rank_heartbeat import read_rank_heartbeat
from torchdeck.contract.layout import AttemptLayout
from torchdeck.contract.metrics.inside_state import InsideState, read_inside_state
from torchdeck.contract.metrics.progress import WATCHED_PHASES, Progress, StepTimes, read_progress
from torchdeck.contract.metrics.script_state import COUNTED
from torchdeck.contract.metrics.segment_format import (
    HEADER_LIMIT,
    SEGMENT_SUFFIX,
    VALUE_BYTES,
    SegmentError,
    SegmentHeader,
    decode_header,
)
from torchdeck.contract.processes import PROC
from torchdeck.contract.rank_layout import RankLayout
from torchdeck.contract.run_states import RankPhase
from torchdeck.trainers.metric_roles import Roles
from torchdeck.trainers.reading import Reading

_UNTRAINED_PHASES = frozenset((RankPhase.STARTING, RankPhase.LOADING, RankPhase.COMPILING, RankPhase.RUNNING))
"""Phases of a rank that need not have trained yet."""
STARTED = 20.0
"""Seconds after which a process is past its start, whatever its heartbeat says."""


class RankState(NamedTuple):
    """A rank as the heartbeat shows it."""

    phase: RankPhase
    step: int
    total: int | None
    time: float
    """Unix seconds of the last progress."""
    still: float
    """Seconds since then."""
    pid: int | None


class RankWatch:
    """One attempt's ranks.

    Attributes:
        exits: rank → exit code, for those that left an exit file.
        states: rank → what it did last.
        scripts: rank → what a script's output, files and callbacks report; not used for a recipe's rank.
        inside: rank → what was added to a script's trainer.
    """

    def __init__(
        self,
        attempt: AttemptLayout,
        ranks: Sequence[int],
        clock: OwnClock,
        roles: Roles | None = None,
        watched: Mapping[int, int] | None = None,
    ) -> None:
        """Watch.

        Args:
            attempt: its folder.
            ranks: of this node.
            clock: of the agent.
            roles: names of metrics.
            watched: rank → process that no rank shim of ours started; 0 if it is unknown.
        """
        self.exits: dict[int, int] = {}
        self.states: dict[int, RankState] = {}
        self._clock = clock
        self._ranks = {rank: attempt.rank(rank) for rank in ranks}
        self.inside = {rank: InsideWatch(layout.inside) for rank, layout in self._ranks.items()}
        self.scripts = {rank: ScriptBook(layout.script, roles) for rank, layout in self._ranks.items()}
        self._rows = {rank: ScriptProgress(layout.metrics) for rank, layout in self._ranks.items()}
        self._running: set[int] = set()
        """Ranks whose program was seen past its imports; a later import is no new start."""
        self._slow: dict[int, float | None] = {}
        self._watched: set[int] = set()
        self._holders: dict[int, int] = dict(watched or {})
        self._pids: dict[int, int] = dict(watched or {})

    @property
    def all_up(self) -> bool:
        """Every rank has been started."""
        return len(self._holders) == len(self._ranks)

    @property
    def trained(self) -> dict[int, int]:
        """rank → step, of those that have begun to train."""
        return {
            rank: state.step for rank, state in self.states.items() if state.phase not in _UNTRAINED_PHASES
        }

    @property
    def completed(self) -> bool:
        """All ranks say that they did all their steps."""
        states = [self.states.get(rank) for rank in self._ranks]
        return all(state is not None and state.phase is RankPhase.DONE for state in states)

    @property
    def pids(self) -> dict[int, int]:
        """rank → process, of those that are known and have not exited."""
        return {
            rank: state.pid for rank, state in self.states.items() if state.pid and rank not in self.exits
        }

    def look(self) -> list[tuple[int, int]]:
        """Read everything again; return (rank, code) of ranks that exited since the last call, in order of
        time.
        """
        self._clock()
        new = []
        for rank, layout in self._ranks.items():
            if rank not in self._holders:
                pid = read_number(layout.holder)
                if pid is None:
                    continue
                self._holders[rank] = pid
            self.inside[rank].look()
            progress = read_progress(layout.progress)
            if progress is not None:
                self._from_progress(rank, progress)
            else:
                self._from_metrics(rank, is_counted=self._take_counted(rank, layout))
            if rank not in self.exits and (code := read_exit(layout.exit)) is not None:
                self.exits[rank] = code
                new.append((rank, code))
        return sorted(new, key=lambda item: _changed(self._ranks[item[0]]))

    def standings(self) -> dict[int, Standing]:
        """Living ranks, for the doctor."""
        return {
            rank: self._standing(rank, state) for rank, state in self.states.items() if rank not in self.exits
        }

    def _standing(self, rank: int, state: RankState) -> Standing:
        beat = read_rank_heartbeat(self._ranks[rank].heartbeat)
        return Standing(
            rank,
            state.phase,
            state.step,
            state.time,
            self._slow.get(rank),
            rank in self._watched,
            state.pid if state.pid is not None else None if beat is None else beat.pid,
            beat,
            0.0 if beat is None else self._clock.since(beat.monotonic),
            _length(self._ranks[rank].stdout) + _length(self._ranks[rank].stderr),
        )

    def _from_progress(self, rank: int, progress: Progress) -> None:
        still = self._clock.since(progress.monotonic)
        self.states[rank] = RankState(
            progress.phase, progress.step, progress.total, progress.time, still, progress.pid
        )
        self._slow[rank] = progress.slow_step
        self._mark(rank, watched=progress.phase in WATCHED_PHASES)
        trainer = self.inside[rank].state.trainer
        if trainer:
            reading = Reading(
                step=progress.step, total=progress.total, time=progress.time, phase=progress.phase
            )
            self.scripts[rank].take(reading, "inside", trainer)
            self._take_row(rank, is_counted=True)
            self.scripts[rank].write()

    def _take_counted(self, rank: int, layout: RankLayout) -> bool:
        """Merge the steps that were counted inside a program without phases of its own; return whether its
        trainer's callback counted them.
        """
        counted = read_progress(layout.counted)
        if counted is None:
            return False
        reading = Reading(step=counted.step, total=counted.total, time=counted.time, phase=counted.phase)
        state = self.inside[rank].state
        if state.trainer and not state.counted:
            self.scripts[rank].take(reading, "inside", state.trainer)
            return True
        self.scripts[rank].take(reading, COUNTED, "counted optimizer steps")
        return False

    def _from_metrics(self, rank: int, *, is_counted: bool) -> None:
        rows, script = self._rows[rank], self.scripts[rank]
        newest = self._take_row(rank, is_counted=is_counted)
        script.write()
        pid = self._child(rank)
        known = script.state
        if newest is None and known.time is None:
            begun = _changed(self._ranks[rank])
            still = self._clock.since_wall(begun)
            phase = RankPhase.RUNNING if pid and self._is_running(rank, still) else RankPhase.STARTING
            self.states[rank] = RankState(phase, 0, None, begun, still, pid)
            return
        time = max(known.time or 0.0, newest.time if newest is not None else 0.0)
        step = known.step if known.step is not None else newest.step if newest is not None else 0
        still = self._clock.since_wall(time)
        phase = known.phase or RankPhase.TRAINING
        self.states[rank] = RankState(phase, step, known.total, time, still, pid)
        self._slow[rank] = rows.times.slow_step
        # one row says nothing of the rhythm in which rows come
        self._mark(rank, watched=rows.times.slow_step is not None and phase in WATCHED_PHASES)

    def _take_row(self, rank: int, *, is_counted: bool) -> ScriptStep | None:
        """Merge the newest row that the program itself logged; return the newest of all.

        If the trainer's callback `is_counted`, it reports each step: a row is of an earlier one.
        """
        newest = self._rows[rank].look()
        trainer = self.inside[rank].state.trainer
        origin = {"log": "torchdeck.log", "inside": trainer}.get(
            "" if newest is None else newest.table.source
        )
        if newest is not None and origin and newest.step >= 0:
            named = dict.fromkeys(newest.table.keys, 0.0)
            step = None if is_counted and newest.table.source == "inside" else newest.step
            reading = Reading(named, step=step, time=newest.time)
            self.scripts[rank].take(reading, newest.table.source, origin)
        if trainer and self._rows[rank].epoch is not None:
            self.scripts[rank].take(Reading(epoch=self._rows[rank].epoch), "inside", trainer)
        return newest

    def _is_running(self, rank: int, age: float) -> bool:
        """Return whether a rank of this age in seconds, which reports nothing, executes its program."""
        if rank not in self._running:
            beat = read_rank_heartbeat(self._ranks[rank].heartbeat)
            if age > STARTED or (beat is not None and beat.place and beat.activity != "importing"):
                self._running.add(rank)
        return rank in self._running

    def _mark(self, rank: int, *, watched: bool) -> None:
        (self._watched.add if watched else self._watched.discard)(rank)

    def _child(self, rank: int) -> int | None:
        """Return the rank's process: its rank shim's only child."""
        if rank not in self._pids:
            holder = self._holders[rank]
            with contextlib.suppress(OSError):
                children = Path(PROC / f"{holder}/task/{holder}/children").read_text().split()
                if children:
                    self._pids[rank] = int(children[0])
        return self._pids.get(rank)


class InsideWatch:
    """Follows the inside.json of one rank.

    Attributes:
        state: the newest; empty before there is one.
    """

    def __init__(self, path: Path) -> None:
        self.state = InsideState()
        self._path = path
        self._version: tuple[int, int] | None = None

    def look(self) -> None:
        """Read the file again if it was replaced."""
        try:
            found = self._path.stat()
            version = (found.st_ino, found.st_mtime_ns)
            if version != self._version:
                self.state = read_inside_state(self._path) or InsideState()
                self._version = version
        except OSError:
            return


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _changed(rank: RankLayout) -> float:
    """Unix time of the rank's exit, or of its start while it is alive."""
    for path in (rank.exit, rank.holder, rank.root):
        with contextlib.suppress(OSError):
            return path.stat().st_mtime
    return 0.0


# How far a script is that reports no progress: the newest row of the metrics its rank logged or printed.

_ROW = struct.Struct("<qd")
_VALUE = struct.Struct("<d")
EPOCH = "epoch"
"""Metric in which callbacks report how many epochs are completed."""


class ScriptStep(NamedTuple):
    """The newest row."""

    step: int
    time: float
    """Unix seconds."""
    table: SegmentHeader
    """Its names, and who wrote it."""


class ScriptProgress:
    """Looks at the ends of one rank's segments.

    Attributes:
        times: seconds between the rows that were seen to come; a script has no other rhythm to compare with.
        epoch: the last one that a callback in the trainer reported; None if none did.
    """

    def __init__(self, folder: Path) -> None:
        self.times = StepTimes()
        self.newest: ScriptStep | None = None
        self.epoch: float | None = None
        self._folder = folder
        self._tables: dict[str, SegmentHeader] = {}
        self._sizes: dict[str, int] = {}

    def look(self) -> ScriptStep | None:
        """The newest row of all segments; None before there is one."""
        before = self.newest
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.name.endswith(SEGMENT_SUFFIX) and not entry.name.startswith("."):
                        self._take(entry.path, entry.stat().st_size)
        except OSError:
            return self.newest
        if before is not None and self.newest is not None and self.newest.time > before.time:
            self.times.add(self.newest.time - before.time)
        return self.newest

    def _take(self, path: str, size: int) -> None:
        if self._sizes.get(path) == size:
            return
        self._sizes[path] = size
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            table = self._tables.get(path) or self._table(path, descriptor)
            if table is None:
                return
            rows = (size - table.length) // table.row_bytes
            if rows > 0:
                last = table.length + (rows - 1) * table.row_bytes
                step, time = _ROW.unpack(os.pread(descriptor, _ROW.size, last))
                if time > 0 and (self.newest is None or (time, step) >= (self.newest.time, self.newest.step)):
                    self.newest = ScriptStep(step, time, table)
                if table.source == "inside" and EPOCH in table.keys:
                    column = last + _ROW.size + VALUE_BYTES * table.keys.index(EPOCH)
                    (epoch,) = _VALUE.unpack(os.pread(descriptor, VALUE_BYTES, column))
                    self.epoch = epoch if epoch >= 0 else self.epoch
        except (OSError, SegmentError, struct.error):
            return
        finally:
            os.close(descriptor)

    def _table(self, path: str, descriptor: int) -> SegmentHeader | None:
        table = decode_header(os.pread(descriptor, min(HEADER_LIMIT, 1 << 20), 0))
        if table is not None:
            self._tables[path] = table
        return table
