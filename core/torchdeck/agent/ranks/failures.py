"""First failure of an attempt, from the files the ranks left: errors, exit codes, and stacks of crashes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.agent.gang.events import CRASHES, EXIT_DELAY, Failure
from torchdeck.contract.atomic import read_json
from torchdeck.contract.bounded_file import read_number
from torchdeck.contract.layout import AttemptLayout
from torchdeck.contract.rank_layout import RankLayout

CLOCK_STEP = 0.02
"""Seconds by which a file's time may lie before its writing: the kernel's clock for files ticks."""
FILE_ERROR = CLOCK_STEP / 2
"""Seconds by which the middle of such a tick may be wrong."""


def files_ahead(folder: Path) -> float:
    """Return the seconds that a file made in `folder` now is dated ahead of `time.time()`.

    0.0 if that cannot be told from no difference at all, or no file can be made.
    """
    probe = folder / f".clock.{os.getpid()}"
    before = time.time()
    try:
        descriptor = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError:
        return 0.0
    try:
        dated = os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            probe.unlink()
    took = time.time() - before
    ahead = dated - (before + took / 2.0)
    return ahead if abs(ahead) > CLOCK_STEP + took else 0.0


TAIL_BYTES = 256 * 1024
"""How much of a log's end is searched for a traceback."""
ERROR_LIMIT = 16 * 1024 * 1024
"""Bytes of torchrun's error file."""
TRACEBACK_LIMIT = 32 * 1024
"""Characters of a traceback that are kept; its end says what happened."""


_HEAD = "Traceback (most recent call last):"
_PREFIX = re.compile(r"^\[rank\d+\]: ?", re.MULTILINE)
"""torch puts it before each line of an uncaught exception once a process group is up."""
_UNCAUGHT = re.compile(r"^\[rank\d+\]: ?" + re.escape(_HEAD), re.MULTILINE)
"""By that prefix it is not one that the script caught and continued after (torch.distributed's
excepthook).
"""
_OF_TORCH = re.compile(r"^(\[rank\d+\]:)?\[[WIE]\d* |.*\d(it|s)/(s|it)[\],]")
"""torch's own log lines and progress bars are no last words."""
_FATAL_SIGNALS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
"""Those that faulthandler handles."""
LINE_LIMIT = 500
"""Characters of a printed line in a message."""
_OF_ABORT = ("terminate called", "what():")
"""How the C++ runtime begins its lines when it aborts a process."""
_OF_TORCHRUN = re.compile(r"exitcode: (-?\d+)\)\s+local_rank: (\d+)")


def first_failure(
    attempt: AttemptLayout, ranks: Iterable[int], log: Path, until: float, *, stopped: bool
) -> Failure | None:
    """Return the first rank that failed by itself.

    Args:
        attempt: of the ranks.
        ranks: the node's global ranks, in order of local rank.
        log: torchrun's own output, which names ranks that left no exit file (their rank shim was killed).
        until: unix time of the agent's first signal; ranks that die after it die of that.
        stopped: the end was requested, so torchrun's report on ranks that it ended is no failure.

    Returns:
        None if every rank ended well, or none left a trace.
    """
    ranks, ahead = list(ranks), files_ahead(attempt.root)
    failures = [
        found for rank in ranks if (found := rank_failure(attempt.rank(rank), rank, ahead)) is not None
    ]
    told = {failure for failure in failures if stopped or failure.signal == signal.SIGTERM}
    own = [found for found in failures if found.time < until - (CLOCK_STEP if found in told else 0.0)]
    # torchrun ends the others with SIGTERM when one fails: those are consequences
    causes = [failure for failure in own if failure.signal != signal.SIGTERM]
    if causes:
        return _first(causes)
    named = None if stopped else _named_by_torchrun(attempt, ranks, log)
    return named or min(own, key=lambda failure: failure.time, default=None)


def _first(causes: list[Failure]) -> Failure:
    """The earliest; but who was killed or crashed before who says that a connection is lost.

    A shell writes the exit of a process that died, when it comes to it; its peers may have failed by then.
    """
    earliest = min(causes, key=lambda failure: failure.time)
    died = [found for found in causes if found.signal in CRASHES and found.time < earliest.time + EXIT_DELAY]
    return min(died, key=lambda failure: failure.time, default=earliest)


def rank_failure(rank: RankLayout, number: int, ahead: float = 0.0) -> Failure | None:
    """How a rank failed; None when it ended with 0, or left no exit file.

    Its files are dated `ahead` seconds ahead of this node's clock.
    """
    code = read_exit(rank.exit)
    if code is None or code == 0:
        return None
    sig = signal_of(code)
    by_itself = sig is None or _aborted_at_exit(rank, sig)
    message, traceback = _words(rank) if by_itself else _crash(rank, code)
    if by_itself and not message and traceback is None:
        message = _last_printed(rank, code)
    ended = _ended(rank, by_itself=by_itself) - ahead
    return Failure(number, code, sig, message or how_it_ended(code), traceback, ended, FILE_ERROR)


def _crash(rank: RankLayout, code: int) -> tuple[str, str | None]:
    """(message, stack) of a rank that a signal ended, if faulthandler has written where."""
    stack = None if signal_of(code) not in _FATAL_SIGNALS else fatal_stack(read_tail(rank.stderr))
    if stack is None or not stack.frames:
        return "", None
    return f"{how_it_ended(code)} in {stack.place}", stack.traceback


def _last_printed(rank: RankLayout, code: int) -> str:
    """The exit code and the last line on standard error, where Python prints the text of sys.exit("text")."""
    lines = map(str.strip, reversed(read_tail(rank.stderr).splitlines()))
    last = next((line for line in lines if line and not _OF_TORCH.match(line)), "")
    return f"exit code {code} after printing: {last[:LINE_LIMIT]}" if last else ""


def _ended(rank: RankLayout, *, by_itself: bool) -> float:
    """Unix time, by its files' clock, from when on its peers may have failed of this rank's end.

    An interpreter may take seconds from exception to exit, and drops its connections meanwhile. What it says
    of an exception is written before; after that it may write other lines, but none before.
    """
    files = [rank.exit, rank.error]
    if by_itself and _UNCAUGHT.search(read_tail(rank.stderr)):
        files.append(rank.stderr)
    return min(path.stat().st_mtime for path in files if path.exists())


def _aborted_at_exit(rank: RankLayout, sig: int) -> bool:
    """Whether a rank that ended by an exception was aborted on its way out: gloo's threads still ran then."""
    if sig != signal.SIGABRT:
        return False
    text = _PREFIX.sub("", without_fatal(read_tail(rank.stderr)))
    _, found, after = text.rpartition(last_traceback(text) or "\0")
    return bool(found) and all(
        not line or line.startswith(_OF_ABORT) for line in map(str.strip, after.splitlines())
    )


def read_exit(path: Path) -> int | None:
    """The code in a rank's exit file; None when there is none."""
    code = read_number(path)
    return code if code is not None and code < 256 else None


def signal_of(code: int | None) -> int | None:
    """The signal that a shell's exit code stands for (128 + n)."""
    if code is None or not 128 < code < 128 + signal.NSIG:
        return None
    return code - 128


def how_it_ended(code: int) -> str:
    """`exit code 3`, or the signal by name with what usually sends it."""
    number = signal_of(code)
    if number is None:
        return f"exit code {code}"
    try:
        known = signal.Signals(number)
    except ValueError:
        return f"ended by signal {number}"
    hints = {
        signal.SIGKILL: " (killed by another process, or by the kernel because memory ran out: see dmesg)",
        signal.SIGBUS: " (often /dev/shm or a disk that is full under a mapped file)",
        signal.SIGSEGV: " (crashed in native code)",
        signal.SIGABRT: " (aborted: see stderr.log)",
    }
    return f"ended by {known.name}{hints.get(known, '')}"


def torchrun_failure(code: int | None, log: Path) -> Failure:
    """A failure that no rank can be blamed for: torchrun's own words, or its signal."""
    if code is None:
        message = "torchrun vanished without an exit status"
    elif signal_of(code) is not None:
        message = f"torchrun {how_it_ended(code)}"
    else:
        message = f"torchrun failed: {_last_line(read_tail(log)) or how_it_ended(code)}"
    traceback = last_traceback(read_tail(log)) if code is not None else None
    return Failure(None, code, signal_of(code), message, traceback, 0.0)


def last_traceback(text: str) -> str | None:
    """The last Python traceback in a log, with those it is chained to and its exception's line."""
    text = _PREFIX.sub("", text)
    head = text.rfind(_HEAD)
    if head < 0:
        return None
    lines = text[head:].splitlines()
    frames_end = (number for number, line in enumerate(lines) if number and line and not line[0].isspace())
    end = next(frames_end, len(lines) - 1)
    block = text[_chained_from(text, head) : head] + "\n".join(lines[: end + 1])
    return block[-TRACEBACK_LIMIT:]


def read_tail(path: Path) -> str:
    """The last `TAIL_BYTES` of a file as text; empty when it is not there."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def _chained_from(text: str, start: int) -> int:
    """Where a chain of tracebacks begins that ends with the one at `start`."""
    while True:
        before = text[:start].rstrip()
        if not before.endswith(
            (
                "During handling of the above exception, another exception occurred:",
                "The above exception was the direct cause of the following exception:",
            )
        ):
            return start
        earlier = before.rfind(_HEAD)
        if earlier < 0:
            return start
        start = earlier


def _words(rank: RankLayout) -> tuple[str, str | None]:
    """(message, traceback) from error.json, else from the end of stderr."""
    try:
        found = read_json(rank.error, limit=ERROR_LIMIT)
    except OSError:
        found = None
    message, traceback = _from_error_file(found)
    message = message[:TRACEBACK_LIMIT]
    if traceback is None:
        traceback = last_traceback(read_tail(rank.stderr))
    if traceback is not None:
        # the exception's line says more than torchrun's wrapping of it
        message = _last_line(traceback) or message
    return message, traceback


def _from_error_file(value: Any) -> tuple[str, str | None]:
    """(message, traceback) of what @record writes: {"message": {"message", "extraInfo": {"py_callstack"}}}.

    The traceback is empty where our trainer says that its message explains all.
    """
    message = value.get("message") if isinstance(value, dict) else None
    if isinstance(message, str):
        traceback = value.get("traceback")
        return message, traceback[-TRACEBACK_LIMIT:] if isinstance(traceback, str) else None
    if not isinstance(message, dict):
        return "", None
    extra = message.get("extraInfo")
    stack = extra.get("py_callstack") if isinstance(extra, dict) else None
    if isinstance(extra, dict) and extra.get("explained") is True:
        return str(message.get("message", "")), ""
    text = stack[-TRACEBACK_LIMIT:].strip() if isinstance(stack, str) else None
    return str(message.get("message", "")), text or None


def _named_by_torchrun(attempt: AttemptLayout, ranks: list[int], log: Path) -> Failure | None:
    found = _OF_TORCHRUN.search(read_tail(log))
    if found is None or int(found.group(2)) >= len(ranks):
        return None
    code, rank = int(found.group(1)), ranks[int(found.group(2))]
    if read_exit(attempt.rank(rank).exit) is not None:
        return None
    code = 128 - code if code < 0 else code
    return Failure(rank, code, signal_of(code), f"its rank shim was {how_it_ended(code)}", None, 0.0)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""


_FATAL = re.compile(r"^Fatal Python error: (?P<what>.+)$", re.MULTILINE)
_CURRENT = re.compile(r"^Current thread .*\(most recent call first\):$", re.MULTILINE)
_FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+|\?\?\?) in (?P<name>.+)$')
_MOST_FRAMES = 100
"""As many as faulthandler writes of a thread."""


class FatalStack(NamedTuple):
    """Stack of the thread that crashed."""

    what: str
    """`Segmentation fault`."""
    frames: tuple[tuple[str, str, str], ...]
    """(file, line, function), the innermost first."""

    @property
    def place(self) -> str:
        """The innermost line, such as `decode (decode.py:12)`; empty if Python executed none."""
        if not self.frames:
            return ""
        file, line, name = self.frames[0]
        return f"{name} ({file.rpartition('/')[2]}:{line})"

    @property
    def traceback(self) -> str:
        """The stack as Python prints tracebacks, with the innermost line last."""
        if not self.frames:
            return ""
        lines = [f'  File "{file}", line {line}, in {name}\n' for file, line, name in reversed(self.frames)]
        return f"Stack of the crash (most recent call last):\n{''.join(lines)}Fatal Python error: {self.what}"


def without_fatal(text: str) -> str:
    """Return a log up to the last crash that faulthandler reports in it."""
    found = list(_FATAL.finditer(text))
    return text[: found[-1].start()] if found else text


def fatal_stack(text: str) -> FatalStack | None:
    """Return the last crash in the end of a log; None if there is none.

    Format: faulthandler's, Python 3.10 to 3.14 (the C stack of 3.14 is left out).
    """
    crashes = list(_FATAL.finditer(text))
    if not crashes:
        return None
    found = crashes[-1]
    current = _CURRENT.search(text, found.end())
    frames = []
    for line in text[current.end() + 1 :].splitlines()[:_MOST_FRAMES] if current else ():
        frame = _FRAME.match(line)
        if frame is None:
            break
        frames.append((frame["file"], frame["line"], frame["name"]))
    return FatalStack(found["what"], tuple(frames))
