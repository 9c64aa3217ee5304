"""Profiles of ranks of this node: by torch's profiler in the rank, else by py-spy."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from torchdeck.agent.doctor.stalls import BEATING, Standing
from torchdeck.agent.processes.child_process import ChildProcess
from torchdeck.contract.atomic import read_json, write_bytes, write_json
from torchdeck.contract.doctor.rank_profile import ProfileOrder, is_profile_name, order_text
from torchdeck.contract.layout import AttemptLayout
from torchdeck.contract.rank_layout import ProfileLayout

SLACK = 45.0
"""Seconds after the recording in which a rank writes its trace, and py-spy its samples."""
RATE = 100
"""Samples of py-spy per second."""
_MOST_JSON = 64 << 10


@dataclass
class _Pending:
    """A rank whose profile is not there yet."""

    files: ProfileLayout
    standing: Standing
    seconds: float
    until: float
    why: str = ""
    """Why the rank does not profile itself; empty: it may."""
    spy: ChildProcess | None = None


class Profiles:
    """Those of one attempt on this node."""

    def __init__(self, attempt: AttemptLayout) -> None:
        self._attempt = attempt
        self._pending: list[_Pending] = []

    def begin(self, name: str, ranks: Sequence[Standing], seconds: float, now: float) -> None:
        """Begin to profile living ranks of this node."""
        if not is_profile_name(name):
            return
        files = self._attempt.profile(name)
        try:
            if ranks:
                files.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            for standing in ranks:
                pending = _Pending(files, standing, seconds, now + seconds + SLACK)
                self._pending.append(pending)
                if standing.beat is None or standing.age > BEATING:
                    pending.why = "it has no heartbeat: telemetry.inside is off, or it does not run Python"
                else:
                    order = order_text(ProfileOrder(files.root, seconds)).encode()
                    write_bytes(self._attempt.rank(standing.rank).profile, order, durable=False)
        except OSError as error:
            print(f"ranks cannot be profiled: {error}", file=sys.stderr, flush=True)

    def poll(self, now: float) -> None:
        """Several times per second: follow what has begun."""
        self._pending = [each for each in self._pending if not self._is_over(each, now)]

    def close(self) -> None:
        """End what was started."""
        for each in self._pending:
            if each.spy is not None:
                each.spy.end()
        self._pending.clear()

    def _is_over(self, each: _Pending, now: float) -> bool:
        rank, files = each.standing.rank, each.files
        if each.spy is not None:
            return self._spy_is_over(each, now)
        if files.summary(rank).exists():
            return True
        if not each.why:
            each.why = _refused(files, rank)
        if each.why:
            return self._spy(each, now)
        if now < each.until:
            return False
        _fail(files, rank, "the rank did not answer in time: it may be stopped, or stuck in native code")
        return True

    def _spy(self, each: _Pending, now: float) -> bool:
        """Start py-spy; return whether that is not possible."""
        program, pid = shutil.which("py-spy"), each.standing.pid
        rank = each.standing.rank
        if program is None or pid is None:
            _fail(each.files, rank, f"{each.why}; py-spy, which could sample it, is not installed")
            return True
        part = each.files.part(rank)
        words = [program, "record", "--nonblocking", "--format", "speedscope", "--rate", str(RATE)]
        words += ["--duration", str(max(1, round(each.seconds))), "--output", str(part), "--pid", str(pid)]
        try:
            each.spy = ChildProcess(words)
        except OSError as error:
            _fail(each.files, rank, f"{each.why}; py-spy cannot be started: {error}")
            return True
        each.until = now + each.seconds + SLACK
        return False

    def _spy_is_over(self, each: _Pending, now: float) -> bool:
        assert each.spy is not None  # noqa: S101 - for the type checker
        rank, part = each.standing.rank, each.files.part(each.standing.rank)
        code = each.spy.exit_code()
        if code is None and now < each.until:
            return False
        each.spy.end()
        try:
            part.replace(each.files.samples(rank))
        except OSError:
            _fail(each.files, rank, f"{each.why}; py-spy ended with {code}: it may need the right to ptrace")
        return True


def _refused(files: ProfileLayout, rank: int) -> str:
    """Return why the rank does not profile itself; empty if it did not refuse."""
    if not files.refusal(rank).exists():
        return ""
    with contextlib.suppress(OSError):
        value = read_json(files.refusal(rank), limit=_MOST_JSON)
        if isinstance(value, dict) and isinstance(value.get("why"), str):
            return str(value["why"])[:600]
    return "it gave no reason"


def _fail(files: ProfileLayout, rank: int, why: str) -> None:
    try:
        write_json(files.failure(rank), {"why": why}, durable=False)
    except OSError as error:
        print(f"a profile's failure cannot be written: {error}", file=sys.stderr, flush=True)
