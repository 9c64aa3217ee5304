"""Process identities, and finding and ending the processes of one run. Never by name."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

PROC = Path("/proc")
MOST_PIDS = 1 << 22
"""The kernel's own limit (proc(5), pid_max)."""
RUN_ID_VARIABLE = "TORCHDECK_RUN_ID"
NODE_VARIABLE = "TORCHDECK_NODE"
"""Name of the node within the run, if there are several."""
RUN_VARIABLES = frozenset(
    {
        RUN_ID_VARIABLE,
        NODE_VARIABLE,
        "TORCHDECK_RUN_DIR",
        "TORCHDECK_ATTEMPT",
        "TORCHDECK_RESUME",
        "TORCHDECK_RECIPE",
        "TORCHDECK_CODE",
        "TORCHDECK_STORE",
        "TORCHDECK_STORE_ORDER",
    }
)
"""Environment variables that only processes of a run have."""

_NODE_PREFIX = f"{NODE_VARIABLE}=".encode()


@cache
def boot_id() -> str:
    """Return the kernel's identity of this boot; a pid is meaningful only within one."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


class ProcessIdentity(NamedTuple):
    """Unambiguous identity of a process: pids are reused, so boot and start time belong to it."""

    pid: int
    start_ticks: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Return the identity of a living process; None if there is none with this pid (a zombie is none)."""
        stat = read_stat(pid)
        if stat is None or stat.state in "ZX":
            return None
        return cls(pid, stat.start_ticks, boot_id())

    @classmethod
    def from_json(cls, value: Any) -> ProcessIdentity | None:
        """Return the identity from its JSON form; None if `value` is not one."""
        if not isinstance(value, Mapping):
            return None
        pid, ticks, boot = value.get("pid"), value.get("start_ticks"), value.get("boot")
        if not isinstance(pid, int) or not isinstance(ticks, int) or not isinstance(boot, str):
            return None
        return cls(pid, ticks, boot) if 0 < pid <= MOST_PIDS and ticks >= 0 else None

    def to_json(self) -> dict[str, Any]:
        return self._asdict()

    def is_alive(self) -> bool:
        return ProcessIdentity.of(self.pid) == self

    def send(self, number: signal.Signals) -> bool:
        """Send a signal to exactly this process; False if it is gone."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.is_alive():
                return False
            signal.pidfd_send_signal(descriptor, number)
            return True
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)


class ProcessStat(NamedTuple):
    """Content of /proc/PID/stat (proc(5))."""

    pid: int
    state: str
    parent: int
    session: int
    cpu_ticks: int
    start_ticks: int


def read_stat(pid: int) -> ProcessStat | None:
    """Return the stat of a process, zombies included; None if it is gone."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # the command name is in parentheses and may hold any character, so count from its end
    fields = text[text.rindex(")") + 2 :].split()
    return ProcessStat(
        pid=pid,
        state=fields[0],
        parent=int(fields[1]),
        session=int(fields[3]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
        start_ticks=int(fields[19]),
    )


def processes_of_run(run_id: str, *, exclude: Iterable[int] = (), node: str = "") -> list[ProcessIdentity]:
    """Return living processes with `run_id` in the environment they were started with.

    Found by the environment, so that orphans and children in sessions of their own are found too. A process
    that overwrote its environment block (setproctitle) hides from this: walk the shim's tree as well.

    Args:
        run_id: id of the run.
        exclude: pids that are left out.
        node: leave out processes that belong to another node; two nodes may be one machine.
    """
    needle = (f"{RUN_ID_VARIABLE}={run_id}".encode(), node.encode())
    skip = set(exclude)
    found = []
    for entry in PROC.iterdir():
        if not entry.name.isdecimal() or int(entry.name) in skip or not _carries(entry, needle):
            continue
        identity = ProcessIdentity.of(int(entry.name))
        # checked again: between the two checks the pid may have been reused
        if identity is not None and _carries(entry, needle):
            found.append(identity)
    return found


def _carries(process: Path, needle: tuple[bytes, bytes]) -> bool:
    run, node = needle
    try:
        variables = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False  # gone, or reused
    if run not in variables:
        return False
    named = [variable for variable in variables if variable.startswith(_NODE_PREFIX)]
    return not node or not named or _NODE_PREFIX + node in named


def descendants(root: int) -> list[ProcessIdentity]:
    """Return the living processes below `root` in the process tree, parents first; `root` itself not
    included.
    """
    children: dict[int, list[ProcessStat]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdecimal() and (stat := read_stat(int(entry.name))) is not None:
            children.setdefault(stat.parent, []).append(stat)
    boot = boot_id()
    found: list[ProcessIdentity] = []
    waiting = list(children.get(root, ()))
    while waiting:
        stat = waiting.pop(0)
        waiting += children.get(stat.pid, ())
        if stat.state not in "ZX":
            # from the same read that showed its parent: a pid that is reused meanwhile is another process
            found.append(ProcessIdentity(stat.pid, stat.start_ticks, boot))
    return found


UMASK_VARIABLE = "TORCHDECK_UMASK"
"""The umask that ranks get, octal: that of the shell that launched the run."""


def make_private() -> None:
    """Make what this process creates readable to its user alone; remember the umask before, for ranks.

    Each process between the launching shell and a rank calls it first; what the first of them found is kept.
    """
    found = os.umask(0o077)
    os.environ.setdefault(UMASK_VARIABLE, f"{found:04o}")


def without_run_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` for a process that watches a run and is not part of it.

    Agents, shims and controllers carry no run's id: ending a run by its id must not end the processes that
    end it.
    """
    return {name: value for name, value in environ.items() if name not in RUN_VARIABLES}
