"""Processes that use this node's GPUs: their users, commands and runs; and ending one of them."""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torchdeck.agent.gpus import UserLister
from torchdeck.contract.processes import PROC, RUN_ID_VARIABLE, ProcessIdentity, read_stat

COMMAND_LENGTH = 1000
"""Maximum characters of a command line that are reported."""
MOST_PROCESSES = 1024
"""Maximum number of processes that are reported."""
GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""
LAST_GRACE = 5.0
"""Seconds after SIGKILL until a process that still lives is given up, as when it waits for a disk."""
_DEVICES = ("/dev/nvidia", "/dev/dxg")
"""Beginnings of the files that a process with a CUDA context has open; the second on WSL."""
_MOST_PARENTS = 64


def gpu_processes(lister: UserLister | None) -> list[dict[str, Any]] | None:
    """Return the processes on all GPUs; None if they are unknown.

    Each: `uuid` of the GPU, `graphics` if it only draws, `pid`, `memory` in bytes or None, `process` (its
    identity; None if it is not visible here, as from within a container), `user`, `command`, `run_id` of the
    run it belongs to, and `endable`: whether this user may end it.
    """
    if lister is None:
        return None
    try:
        found = lister()
    except (OSError, subprocess.SubprocessError):
        return None
    return [{**user, **_described(int(user["pid"]))} for user in found[:MOST_PROCESSES]]


def _described(pid: int) -> dict[str, Any]:
    identity = ProcessIdentity.of(pid)
    owner = _owner(pid)
    if identity is None or owner is None:
        return {"process": None, "user": "", "command": "", "run_id": "", "endable": False}
    return {
        "process": identity.to_json(),
        "user": user_name(owner),
        "command": command_of(pid),
        "run_id": run_of(pid),
        "endable": _may_end(owner),
    }


def command_of(pid: int) -> str:
    """Return the command line of a process, or else its name; empty if it is gone."""
    with contextlib.suppress(OSError):
        with (PROC / str(pid) / "cmdline").open("rb") as file:
            words = file.read(4 * COMMAND_LENGTH).rstrip(b"\0").replace(b"\0", b" ")
        text = (
            words.decode("utf-8", "replace") or (PROC / str(pid) / "comm").read_text(errors="replace").strip()
        )
        return text if len(text) <= COMMAND_LENGTH else f"{text[: COMMAND_LENGTH - 1]}…"
    return ""


def run_of(pid: int) -> str:
    """Return the run that a process belongs to by its environment or its parents'; empty if to none.

    A process that has overwritten its environment (setproctitle) is known by its parents. Those of other
    users cannot be read.
    """
    for _ in range(_MOST_PARENTS):
        with contextlib.suppress(OSError):
            for variable in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                name, _, value = variable.partition(b"=")
                if name == RUN_ID_VARIABLE.encode() and value:
                    return value.decode("utf-8", "replace")
        stat = read_stat(pid)
        if stat is None or stat.parent <= 1:
            break
        pid = stat.parent
    return ""


def uses_gpu(pid: int) -> bool:
    """Return whether a process has a file of NVIDIA's driver open. Its own user and root can see that."""
    with contextlib.suppress(OSError):
        for entry in (PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                if str(Path(entry).readlink()).startswith(_DEVICES):
                    return True
    return False


def end_process(
    question: Mapping[str, Any], uses: Callable[[int], bool] = uses_gpu, grace: float = GRACE
) -> dict[str, Any]:
    """End exactly the process of `process`, an identity: SIGTERM, grace, SIGKILL.

    Args:
        question: the request.
        uses: tells whether a process uses a GPU. A container may show the pid of another process.
        grace: seconds between the two signals.

    Returns:
        `outcome`: `ended`, `killed` (it ignored SIGTERM), `gone` (it had ended before), `refused` or `left`
        (it does not end); `why`: the reason for the last two, as a sentence.

    Raises:
        ValueError: that is no identity.
    """
    process = ProcessIdentity.from_json(question.get("process"))
    if process is None:
        raise ValueError("the request names no process")
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return _outcome("gone")
    try:
        if not process.is_alive():
            return _outcome("gone")
        why = _why_not(process.pid, uses)
        if why:
            return _outcome("refused", why)
        return _ended(process, descriptor, grace)
    except PermissionError:
        return _outcome("refused", f"this user may not end process {process.pid}")
    finally:
        os.close(descriptor)


def _ended(process: ProcessIdentity, descriptor: int, grace: float) -> dict[str, Any]:
    """Signal by the descriptor, which stays with the process even if its pid is reused."""
    for number, seconds, outcome in (
        (signal.SIGTERM, grace, "ended"),
        (signal.SIGKILL, LAST_GRACE, "killed"),
    ):
        try:
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return _outcome(outcome)
        if select.select([descriptor], [], [], seconds)[0]:
            return _outcome(outcome)
    why = (
        f"process {process.pid} does not end, not even by SIGKILL; it may be waiting for a disk or the driver"
    )
    return _outcome("left", why)


def _why_not(pid: int, uses: Callable[[int], bool]) -> str:
    """Return why the process must not be ended; empty if it may be."""
    owner = _owner(pid)
    run_id = run_of(pid)
    if run_id:
        return f"process {pid} belongs to run {run_id}: stop the run instead"
    if owner is None or not _may_end(owner):
        whose = "another user" if owner is None else user_name(owner)
        return f"process {pid} belongs to {whose}"
    if not uses(pid):
        return f"process {pid} does not use a GPU"
    return ""


def _outcome(outcome: str, why: str = "") -> dict[str, Any]:
    return {"outcome": outcome, "why": why}


def _may_end(owner: int) -> bool:
    return os.geteuid() in (0, owner)


def _owner(pid: int) -> int | None:
    try:
        return (PROC / str(pid)).stat().st_uid
    except OSError:
        return None


def user_name(owner: int) -> str:
    """Return the name of a user, or its number if it has none."""
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return str(owner)
