"""Collects the evidence on this node's ranks within seconds; the agent's loop polls it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from torchdeck.agent.doctor import proc
from torchdeck.agent.doctor.evidence import DEAD, RankEvidence, from_answer, from_faulthandler
from torchdeck.agent.doctor.evidence_limit import fitting, plain
from torchdeck.agent.doctor.node.gpus import DeviceEvidence
from torchdeck.agent.doctor.node.interfaces import InterfaceEvidence
from torchdeck.agent.doctor.py_spy import LIMIT as PY_SPY_LIMIT
from torchdeck.agent.doctor.py_spy import PySpy
from torchdeck.agent.doctor.stalls import BEATING, Stall, Standing
from torchdeck.contract.atomic import read_json, write_bytes, write_json
from torchdeck.contract.doctor.rank_heartbeat import INTERVAL, RankHeartbeat
from torchdeck.contract.layout import FORMAT_VERSION, AttemptLayout
from torchdeck.contract.rank_layout import ExaminationLayout

ANSWER_LIMIT = 4 * INTERVAL
"""Seconds in which a rank's heartbeat thread answers."""
SIGNAL_LIMIT = 1.0
"""Seconds in which faulthandler writes the stacks of a rank that did not answer."""
SECOND_LOOK = 1.5
"""Seconds after which it is known whether a rank has made progress since."""
NATIVE_CPU = 0.5
NATIVE_SECONDS = 8.0
"""A loop of two lines is seen at one of them in each of a few samples now and then."""
_ANSWER_BYTES = 4 << 20
_STACK_BYTES = 256 << 10


class Examined(NamedTuple):
    """Evidence of this node, as much as fits into a message to the leader; all of it is on disk."""

    name: str
    ranks: tuple[RankEvidence, ...]


class Examiner:
    """One examination at a time."""

    def __init__(self, attempt: AttemptLayout, environ: Mapping[str, str]) -> None:
        """Examine ranks that were started with `environ`."""
        self._attempt = attempt
        self._environ = environ
        self._name = ""
        self._folder: ExaminationLayout | None = None
        self._open: dict[int, Standing] = {}
        self._working: set[int] = set()
        self._stopped: set[int] = set()
        """Ranks that were seen stopped since the examination began: one that continues begins a new limit."""
        self._devices: DeviceEvidence | None = None
        self._interfaces = InterfaceEvidence()
        self._faults = ""
        self._begun = self._since = self._complete = self._looked = 0.0
        self._signalled: dict[int, int] | None = None
        """rank → length of its file of stacks before the signal; None: no signal was sent yet."""
        self._spies: dict[int, PySpy] = {}
        self._answers: dict[int, dict[str, Any]] = {}
        """rank → fields of its evidence, as it has answered itself; empty if the answer is damaged."""

        self._blocked: set[int] = set()
        """Ranks that were in state D at each look since then: a moment in it says nothing."""

    def begin(
        self, name: str, standings: Mapping[int, Standing], stalls: Mapping[int, Stall], now: float
    ) -> None:
        """Ask all ranks for their stacks and collectives."""
        self.close()
        # before they write megabytes, which would look like work
        self._working = {rank for rank, stall in stalls.items() if stall.working}
        self._name, self._signalled = name, None
        self._begun = self._since = now
        self._folder = self._attempt.examination(name)
        self._open = dict(standings)
        self._complete = 0.0
        self._interfaces.begin()
        self._stopped.clear()
        self._blocked = set(standings)
        self._answers.clear()
        self._note_states()
        try:
            self._folder.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            for rank in standings:
                self._folder.answer(rank).unlink(missing_ok=True)
                # the second line is another one each time: a folder is written again if there was no hang
                asked = os.fsencode(self._folder.root) + b"\n%d" % time.monotonic_ns()
                write_bytes(self._attempt.rank(rank).examine, asked, durable=False)
            if standings:
                first = min(standings)
                ras = self._folder.nccl_ras(first)
                pids = [standing.pid for standing in standings.values() if standing.pid is not None]
                self._devices = DeviceEvidence(self._folder.gpus(first), ras, pids, self._environ)
        except OSError as error:  # a full disk: the verdict is made of what /proc tells
            print(f"stacks cannot be asked for: {error}", file=sys.stderr, flush=True)

    def poll(
        self,
        standings: Mapping[int, Standing],
        stalls: Mapping[int, Stall],
        exits: Mapping[int, int],
        now: float,
    ) -> Examined | None:
        """Return the evidence once it is complete, or time is up."""
        folder = self._folder
        if folder is None:
            return None
        self._note_states()
        self._read_answers(folder)
        if self._signalled is None:
            missing = [rank for rank in self._open if rank not in self._answers and self._can_answer(rank)]
            if now - self._since < ANSWER_LIMIT and any(self._has_beat(rank) for rank in missing):
                return None
            # a rank of more than 100 threads, or without the GIL, answers without its main thread
            missing += [rank for rank, answer in self._answers.items() if not answer.get("frames")]
            if self._signal(missing):
                self._since = now
                return None
        spied = any(spy.running for spy in self._spies.values())
        limit = PY_SPY_LIMIT if spied else SIGNAL_LIMIT
        awaited = bool(self._signalled or self._spies) and now - self._since < limit
        if awaited or now - self._begun < SECOND_LOOK:
            return None
        # a rank that was frozen until now has answered, and its new heartbeat is seen by the next look
        self._complete = self._complete or now
        if self._looked <= self._complete:
            return None
        passed, self._folder = now - self._begun, None
        self._faults = self._interfaces.end(folder.interfaces(min(self._open))) if self._open else ""
        found = tuple(
            self._evidence(
                folder, standings.get(rank, standing), stalls.get(rank), passed, ended=rank in exits
            )
            for rank, standing in sorted(self._open.items())
        )
        ended = tuple(RankEvidence(rank, ended=True) for rank in sorted(exits) if rank not in self._open)
        self.close()
        return Examined(self._name, fitting(tuple(sorted(found + ended))))

    def looked(self, now: float) -> None:
        """Note that the ranks' heartbeats were read."""
        self._looked = now

    def close(self) -> None:
        """End what was started for an examination."""
        for spy in self._spies.values():
            spy.close()
        self._spies.clear()
        self._folder = None

    def _note_states(self) -> None:
        letters = {rank: proc.state(standing.pid) for rank, standing in self._open.items()}
        self._stopped |= {rank for rank, letter in letters.items() if letter == "T"}
        self._blocked &= {rank for rank, letter in letters.items() if letter == "D"}

    def _can_answer(self, rank: int) -> bool:
        return proc.state(self._open[rank].pid) not in ("T", "t", "gone", "Z", "")

    def _has_beat(self, rank: int) -> bool:
        return self._open[rank].beat is not None

    def _signal(self, ranks: list[int]) -> bool:
        """Have faulthandler write the stacks of ranks that have not answered, which needs no cooperation of
        Python; else run py-spy. Return whether any stack is to come.
        """
        self._signalled = {}
        spy = shutil.which("py-spy")
        for rank in ranks:
            standing = self._open[rank]
            beat, pid = standing.beat, standing.pid
            if pid is None:
                continue
            takes_signal = beat is not None and beat.pid == pid and rank not in self._answers
            if beat is not None and takes_signal and beat.signal and proc.catches(pid, beat.signal):
                self._signalled[rank] = _length(self._attempt, rank)
                with contextlib.suppress(OSError):
                    os.kill(pid, beat.signal)
            elif spy is not None:
                with contextlib.suppress(OSError):
                    self._spies[rank] = PySpy(spy, pid)
        return bool(self._signalled or self._spies)

    def _evidence(
        self,
        folder: ExaminationLayout,
        standing: Standing,
        stall: Stall | None,
        passed: float,
        *,
        ended: bool,
    ) -> RankEvidence:
        rank, pid, beat = standing.rank, standing.pid, standing.beat
        stall = stall or Stall(0.0, 0.0, late=False, working=False, cpu=0.0)
        letter = proc.state(pid)
        found = self._stack(rank)
        frames = found.get("frames", ())
        evidence = RankEvidence(
            rank,
            pid=pid,
            state=letter,
            moved=stall.still < passed - SECOND_LOOK / 2 or (rank in self._stopped and letter != "T"),
            ended=ended,
            still=round(stall.still, 3),
            limit=round(stall.limit, 3),
            phase=str(standing.phase),
            step=standing.step if standing.step > 0 or beat is None else None,
            known=beat is not None,
            beating=beat is not None and (standing.age < BEATING or bool(self._answers.get(rank))),
            working=rank in self._working,
            cpu=round(stall.cpu, 2),
            native=bool(frames) and frames[0].calls and _is_in_one_call(stall, beat),
            blocked=rank in self._blocked and letter == "D",
            kernel=_kernel(pid, letter, is_known=bool(frames)),
            workers=proc.workers(pid) if pid is not None else "",
            nccl="" if self._devices is None else self._devices.nccl,
            interfaces=self._faults,
            counts=beat.by_group if beat is not None and letter in DEAD else (),
            **found,
        )
        value = {"v": FORMAT_VERSION, **plain(evidence)}
        try:
            write_json(folder.rank(rank), value, durable=False)
        except OSError as error:
            print(f"evidence cannot be written: {error}", file=sys.stderr, flush=True)
        return evidence

    def _read_answers(self, folder: ExaminationLayout) -> None:
        for rank in self._open:
            if rank not in self._answers and folder.answer(rank).exists():
                self._answers[rank] = {}
                with contextlib.suppress(OSError):
                    self._answers[rank] = from_answer(read_json(folder.answer(rank), limit=_ANSWER_BYTES))

    def _stack(self, rank: int) -> dict[str, Any]:
        answer = self._answers.get(rank, {})
        if answer.get("frames"):
            return answer
        if not answer and self._signalled is not None and rank in self._signalled:
            text = _tail(self._attempt, rank, self._signalled[rank])
            return {"source": "faulthandler", "frames": from_faulthandler(text)} if text else {}
        frames = self._spies[rank].frames() if rank in self._spies else ()
        return {**answer, "source": "py-spy", "frames": frames} if frames else answer


def _kernel(pid: int | None, letter: str, *, is_known: bool) -> str:
    """Return where a process waits in the kernel if it is for a disk, or if no stack `is_known`."""
    if pid is None:
        return ""
    if letter == "D":
        return proc.kernel_wait(pid)
    return "" if is_known else proc.wait_channel(pid)


def _is_in_one_call(stall: Stall, beat: RankHeartbeat | None) -> bool:
    """Return whether the main thread, which uses the processor, was never seen at another line for long."""
    always = beat is not None and beat.places == 1 and stall.still >= NATIVE_SECONDS
    return always and stall.cpu > NATIVE_CPU


def _length(attempt: AttemptLayout, rank: int) -> int:
    try:
        return attempt.rank(rank).stacks.stat().st_size
    except OSError:
        return 0


def _tail(attempt: AttemptLayout, rank: int, begin: int) -> str:
    """Return what was appended to a rank's file of stacks since it had `begin` bytes."""
    try:
        descriptor = os.open(attempt.rank(rank).stacks, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.pread(descriptor, _STACK_BYTES, begin).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
