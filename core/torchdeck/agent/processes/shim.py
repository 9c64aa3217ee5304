"""torchrun's parent: starts it, waits, writes how it ended, keeps device leases open and an agent alive.

Small on purpose, since nothing restarts it: standard library, a session of its own, no decisions. Started by
the agent (`start_shim`), as a program with the order (argv, env, cwd) as JSON on standard input; device
leases are inherited.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # -I leaves the shipped folder out

from torchdeck.agent.supervisor_process import log_to_standard_error, set_process_name
from torchdeck.contract.atomic import read_json, sync_file, sync_folder, write_json
from torchdeck.contract.layout import FORMAT_VERSION, NodeLayout, RunLayout
from torchdeck.contract.processes import ProcessIdentity, make_private, without_run_variables

PROCESS_NAME = "torchdeck-shim"
"""Process name in `ps -o comm`."""
FIRST_DELAY = 0.2
"""Seconds before a dead agent is started again; doubles with each one that dies young."""
LAST_DELAY = 30.0
YOUNG = 60.0
"""Seconds that an agent must run for the delay to be reset."""
GIVE_UP = 20
"""Agents that may die young in a row once torchrun is gone; nothing is left to be watched then."""


class AgentWatchdog:
    """Sees to it that there is an agent until the run is finished."""

    def __init__(
        self,
        node: NodeLayout,
        argv: list[str],
        pid: int,
        leases: Sequence[int] = (),
        handover: bytes = b"",
    ) -> None:
        self._node = node
        self._handover = handover
        self._argv = [*argv, *(f"--lease={lease}" for lease in leases)]
        self._leases = tuple(leases)
        self._child: subprocess.Popen[bytes] | None = None
        self._due = 0.0
        self._seen = time.monotonic()
        self.failures = 0
        self.descriptor = -1
        self._watch(pid)

    @property
    def has_directory(self) -> bool:
        """The run's directory is still there: its plan is, without which no agent can start."""
        return self._node.run.plan.exists()

    def look(self) -> float:
        """Start an agent if none is alive; return the seconds until the next check, unless an agent exits."""
        if self.descriptor >= 0:
            if not select.select([self.descriptor], [], [], 0)[0]:
                return 3600.0
            self._agent_died()
        now = time.monotonic()
        if now < self._due:
            return self._due - now
        if self._another_lives():
            return 1.0 if self.descriptor < 0 else 3600.0
        try:
            self._start()
        except OSError as error:
            # no memory, no log, no interpreter: torchrun is held all the same, and the agent tried for again
            print(f"shim: an agent cannot be started: {error}", file=sys.stderr, flush=True)
            self._failed(young=True)
            return self._due - time.monotonic()
        return 3600.0

    def _start(self) -> None:
        with self._node.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE if self._handover else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=without_run_variables(os.environ),
                pass_fds=self._leases,
                start_new_session=True,
            )
        self._watch(self._child.pid)
        if self._child.stdin is not None:
            with contextlib.suppress(BrokenPipeError), self._child.stdin as pipe:
                pipe.write(self._handover)

    def _agent_died(self) -> None:
        os.close(self.descriptor)
        self.descriptor = -1
        if self._child is not None:
            self._child.wait()
            self._child = None
        self._failed(young=time.monotonic() - self._seen < YOUNG)

    def _failed(self, *, young: bool) -> None:
        self.failures = self.failures + 1 if young else 1
        delay = min(LAST_DELAY, FIRST_DELAY * 2 ** min(self.failures - 1, 10))
        self._due = time.monotonic() + delay

    def _another_lives(self) -> bool:
        """Return whether an agent started by another process holds the lock; its pid is in the file."""
        try:
            with self._node.lock.open("r+b") as file:  # NFS locks only what may be written
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            identity = ProcessIdentity.from_json(read_json(self._node.lock))
            if identity is not None and identity.is_alive():
                self._watch(identity.pid)
            return True
        except FileNotFoundError:
            return False

    def _watch(self, pid: int) -> None:
        self._seen = time.monotonic()
        try:
            self.descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self.descriptor = -1


def start_shim(
    arguments: Sequence[str], order: Mapping[str, Any], leases: Sequence[int], agent: Sequence[str]
) -> Callable[[], int | None]:
    """Start this module as a program; how to ask for its exit code, which never waits.

    Args:
        arguments: its options but those for leases.
        order: what it reads on standard input, as for `main`.
        leases: open descriptors of device leases, for it to keep.
        agent: command line of an agent for this node, if this one dies.

    Raises:
        OSError: it cannot be started.
    """
    words = [*arguments, *(f"--lease={lease}" for lease in leases), "--", *agent]
    process = subprocess.Popen(
        [sys.executable, "-I", "-B", str(Path(__file__).resolve()), *words],
        stdin=subprocess.PIPE,
        stdout=sys.stderr,
        stderr=sys.stderr,
        env=without_run_variables(os.environ),
        pass_fds=tuple(leases),
        start_new_session=True,
    )
    assert process.stdin is not None  # noqa: S101 - for the type checker: it was asked for
    with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(json.dumps(order).encode("utf-8"))
    return process.poll


def last_event(journal: Path) -> str:
    """Name of the journal's last event; empty when there is none."""
    try:
        with journal.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
            lines = file.read().splitlines()
    except OSError:
        return ""
    for line in reversed(lines):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return str(json.loads(line)["event"])
    return ""


def start_torchrun(order: dict[str, Any], log: Path) -> subprocess.Popen[bytes]:
    """torchrun in a session of its own, so that no terminal's signal reaches it.

    Raises:
        OSError: it cannot be started.
    """
    store = str(order.get("store", "")).encode()
    with log.open("ab") as output:
        torchrun = subprocess.Popen(
            order["argv"],
            stdin=subprocess.PIPE if store else subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=order["cwd"],
            env=order["env"],
            start_new_session=True,
        )
    if torchrun.stdin is not None:
        with contextlib.suppress(BrokenPipeError), torchrun.stdin as pipe:
            pipe.write(store)
    return torchrun


def main(arguments: list[str], order: dict[str, Any]) -> int:
    """Hold one torchrun; 0 once the run is finished.

    Args:
        arguments: options, and an agent's command line after `--`.
        order: torchrun's `argv`, `env` and `cwd`, what it reads about its store, `store`, and what an agent
            is handed, `handover`.
    """
    options = _parse(arguments)
    layout = RunLayout(Path(options.run_dir))
    node = layout.node(options.node)
    mine = layout.attempt(options.attempt).node(options.node)
    make_private()
    log_to_standard_error()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # a handler, not SIG_IGN, which torchrun would inherit
    lock = os.open(mine.root / "holder.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 1  # this attempt has its shim
    if mine.holder.exists():
        return 1  # it had one
    identity: dict[str, Any] = {
        "v": FORMAT_VERSION,
        "attempt": options.attempt,
        "holder": _json(ProcessIdentity.of(os.getpid())),
        "torchrun": None,
    }
    try:
        torchrun = start_torchrun(order, mine.torchrun_log)
    except OSError as error:
        why = f"{order['argv'][0]} could not be started in {order['cwd']}: {error.strerror or error}"
        write_json(
            mine.exit, {"v": FORMAT_VERSION, "code": 127, "signal": None, "time": time.time(), "why": why}
        )
        write_json(mine.holder, identity)
        return 1
    identity["torchrun"] = _json(ProcessIdentity.of(torchrun.pid))
    # not synced: a power cut ends the processes it names
    write_json(mine.holder, identity, durable=False)
    handover = str(order.get("handover", "")).encode()
    keeper = AgentWatchdog(node, options.agent, options.agent_pid, options.leases, handover)
    _hold(torchrun, keeper, mine.exit)
    return _keep_until_finished(keeper, node.journal)


def _hold(torchrun: subprocess.Popen[bytes], keeper: AgentWatchdog, exit_file: Path) -> None:
    ended = os.pidfd_open(torchrun.pid)
    told = False
    while not _wait(keeper, ended):
        if keeper.failures and not told and not keeper.has_directory:
            # its directory was deleted: no agent can come back, and nothing could stop the ranks any more
            torchrun.terminate()
            told = True
    code = torchrun.wait()
    content = {
        "v": FORMAT_VERSION,
        "code": code if code >= 0 else 128 - code,
        "signal": -code if code < 0 else None,
        "time": time.time(),
    }
    # the leases stay here too until the next attempt or the end: no other run may come in between
    try:
        # first of all it is there: the agent waits for it, and a busy disk may take longer than that
        write_json(exit_file, content, durable=False)
        sync_file(exit_file)
        sync_folder(exit_file.parent)
    except OSError as error:
        # the agent judges by the ranks' own files then
        print(f"shim: {exit_file} cannot be written: {error}", file=sys.stderr, flush=True)


def _keep_until_finished(keeper: AgentWatchdog, journal: Path) -> int:
    while last_event(journal) not in ("finished", "node_finished"):
        if keeper.failures > GIVE_UP or not keeper.has_directory:
            return 1
        _wait(keeper, -1)
    return 0


def _wait(keeper: AgentWatchdog, torchrun: int) -> bool:
    """Until torchrun ends (True), or the keeper has something to do."""
    seconds = keeper.look()  # first: it may watch another descriptor afterwards
    poll = select.poll()
    for descriptor in (torchrun, keeper.descriptor):
        if descriptor >= 0:
            poll.register(descriptor, select.POLLIN)
    return torchrun in [descriptor for descriptor, _ in poll.poll(max(10, seconds * 1000))]


def _json(identity: ProcessIdentity | None) -> dict[str, Any] | None:
    return None if identity is None else identity.to_json()


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="shim", description=__doc__)
    parser.add_argument("--run-dir", required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--attempt", type=int, required=True)
    parser.add_argument("--agent-pid", type=int, required=True)
    parser.add_argument("--lease", dest="leases", type=int, action="append", default=[])
    parser.add_argument("agent", nargs="+", help="command line of an agent for this node")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    set_process_name(PROCESS_NAME)
    sys.exit(main(sys.argv[1:], json.load(sys.stdin)))
