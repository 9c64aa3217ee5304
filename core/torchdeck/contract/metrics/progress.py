"""Last progress of a rank: one small record in a file of its own, overwritten. The agent watches it for
hangs.

Standard library, Python 3.10.
"""

from __future__ import annotations

import logging
import math
import os
import struct
import time
import zlib
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from torchdeck.contract.journal import LATEST
from torchdeck.contract.run_states import RankPhase

PHASES = tuple(RankPhase)
"""In the order of their numbers."""
WATCHED_PHASES = frozenset((RankPhase.TRAINING, RankPhase.EVALUATING))
"""Phases in which no progress is a hang; the others have no time limit."""

_MAGIC = b"TDPROG1\n"
_BODY = struct.Struct("<8sIIqqddd")  # magic, pid, phase, step, total or -1, time, monotonic, slow step or NaN
_CHECKSUM = struct.Struct("<I")
_RECORD_BYTES = _BODY.size + _CHECKSUM.size
_READ_ATTEMPTS = 5
_log = logging.getLogger("torchdeck")


@dataclass(frozen=True)
class Progress:
    """Last report of a rank.

    Attributes:
        phase: what it was doing.
        step: optimizer steps done.
        total: steps in all, if known.
        time: unix seconds on the rank's clock.
        monotonic: seconds on the node's monotonic clock, to compare with another reading in the same boot.
        slow_step: 99th percentile of recent step times in seconds, if there is one.
        pid: the rank's process.
    """

    phase: RankPhase
    step: int
    total: int | None
    time: float
    monotonic: float
    slow_step: float | None
    pid: int


class ProgressFile:
    """Progress file of a rank, for writing."""

    def __init__(self, path: Path) -> None:
        """Create the writer; the file and its folder are made with the first report."""
        self._path = path
        self._descriptor = -1
        self._failing = False

    def report(
        self, phase: str, step: int, *, total: int | None = None, slow_step: float | None = None
    ) -> None:
        """Overwrite the record: one write of fixed size, some 2 µs.

        An unwritable disk is logged once by the `torchdeck` logger and never breaks a training.

        Args:
            phase: a `RankPhase`, or its text.
            step: optimizer steps done.
            total: steps in all, if known.
            slow_step: 99th percentile of recent step times in seconds (`StepTimes.slow_step`).

        Raises:
            ValueError: there is no such phase.
        """
        body = _BODY.pack(
            _MAGIC,
            os.getpid(),
            _phase_number(phase),
            step,
            -1 if total is None else total,
            time.time(),
            time.monotonic(),
            math.nan if slow_step is None else slow_step,
        )
        try:
            if self._descriptor < 0:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.pwrite(self._descriptor, body + _CHECKSUM.pack(zlib.crc32(body)), 0)
            self._failing = False
        except OSError as error:
            if not self._failing:
                _log.warning("progress cannot be written: %s: %s", self._path, error)
            self._failing = True

    def close(self) -> None:
        """Close the file; a later report opens it again."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def read_progress(path: Path) -> Progress | None:
    """Return the record in `path`; None if there is none, or it is incomplete."""
    for _ in range(_READ_ATTEMPTS):  # a write in progress may be seen half done; the next read sees it whole
        try:
            record = _read(path)
        except OSError:
            return None
        progress = _decode(record)
        if progress is not None:
            return progress
    return None


class StepTimes:
    """Durations of the last 256 steps."""

    def __init__(self) -> None:
        self._durations: deque[float] = deque(maxlen=256)

    def add(self, seconds: float) -> None:
        self._durations.append(seconds)

    @property
    def slow_step(self) -> float | None:
        """Return the 99th percentile in seconds, by the nearest-rank rule; None before the first step."""
        if not self._durations:
            return None
        ordered = sorted(self._durations)
        return ordered[math.ceil(0.99 * len(ordered)) - 1]


def _phase_number(phase: str) -> int:
    try:
        return PHASES.index(RankPhase(phase))
    except ValueError:
        raise ValueError(f"there is no phase {phase!r}; phases are {', '.join(PHASES)}") from None


def _read(path: Path) -> bytes:
    # O_NONBLOCK: a rank may have put a FIFO there, which must not block
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _RECORD_BYTES)
    finally:
        os.close(descriptor)


def _decode(record: bytes) -> Progress | None:
    if len(record) != _RECORD_BYTES:
        return None
    body, checksum = record[: _BODY.size], record[_BODY.size :]
    if _CHECKSUM.unpack(checksum)[0] != zlib.crc32(body):
        return None
    magic, pid, phase, step, total, wall, monotonic, slow_step = _BODY.unpack(body)
    if magic != _MAGIC or phase >= len(PHASES) or not 0 <= wall < LATEST or not abs(monotonic) < LATEST:
        return None
    return Progress(
        phase=PHASES[phase],
        step=step,
        total=None if total < 0 else total,
        time=wall,
        monotonic=monotonic,
        slow_step=slow_step if math.isfinite(slow_step) else None,
        pid=pid,
    )
