"""Starting the holder of an attempt: a copy made beforehand where there is one, a program else.

A Python that begins anew takes longer until it can start torchrun than all else between order and start.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchdeck.agent.process_title import set_process_title
from torchdeck.agent.processes import holder
from torchdeck.agent.processes.forked_process import forked, has_one_thread
from torchdeck.contract.processes import without_run_variables

PROCESS_NAME = "torchdeck-hold"
ExitCode = Callable[[], int | None]
"""Of a process; None while it lives. Never waits."""
GIVE_LIMIT = 5.0
"""Seconds for a copy to take its order."""
END_LIMIT = 2.0
"""Seconds for one that was killed to be gone."""
LOST_LEASES = 71
"""Exit code of a copy that did not get all leases."""
MOST_LEASES = 250
"""Descriptors that the kernel passes on at once are 253."""
_HEAD = 10
"""Digits of an order's length."""


class HolderStart:
    """Starts the holders of this process's attempts.

    Args:
        agent: command line of an agent for this node, should this one die.
        spare: a copy for the first of them.
    """

    def __init__(self, agent: Sequence[str], spare: SpareHolder | None = None) -> None:
        self._agent = tuple(agent)
        self._spare = spare

    def start(self, arguments: Sequence[str], order: Mapping[str, Any], leases: Sequence[int]) -> ExitCode:
        """Start one.

        Args:
            arguments: its options but those for leases.
            order: what it reads, as `holder.main` has it.
            leases: open descriptors of device leases, for it to keep.

        Returns:
            How to ask for its exit code.

        Raises:
            OSError: it cannot be started.
        """
        spare, self._spare = self._spare, None
        if spare is not None:
            if len(leases) <= MOST_LEASES and spare.give(arguments, self._agent, order, leases):
                return spare.exit_code
            spare.end()
        return _program(_words(arguments, leases, self._agent), order, leases)


class SpareHolder:
    """A copy of this process that waits for the order to be a holder, and ends when none can come any more.

    Raises:
        OSError: there can be no more processes.
        RuntimeError: this process has more threads than one.
    """

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = forked(_wait, PROCESS_NAME, theirs.fileno(), 2, "torchdeck holder")
            except BaseException:
                self._socket.close()
                raise

    @property
    def exit_code(self) -> ExitCode:
        """How to ask for its exit code."""
        return self._process.exit_code

    def give(
        self, arguments: Sequence[str], agent: Sequence[str], order: Mapping[str, Any], leases: Sequence[int]
    ) -> bool:
        """Hand it its order, for `GIVE_LIMIT` seconds at most; False where it did not take all of it."""
        told = {"arguments": [*arguments], "agent": [*agent], "leases": len(leases), "order": order}
        message = json.dumps(told).encode()
        self._socket.settimeout(GIVE_LIMIT / 2)
        try:
            socket.send_fds(self._socket, [b"%0*d" % (_HEAD, len(message))], list(leases))
            self._socket.sendall(message)
        except OSError:
            return False
        self._socket.close()
        return self.exit_code() is None

    def end(self) -> None:
        """It is not to be a holder any more."""
        self._socket.close()
        self._process.end(END_LIMIT)


def spare_holder() -> SpareHolder | None:
    """One, where this process can be copied."""
    if has_one_thread():
        with contextlib.suppress(OSError):
            return SpareHolder()
    return None


def _program(argv: Sequence[str], order: Mapping[str, Any], leases: Sequence[int]) -> ExitCode:
    process = subprocess.Popen(
        [sys.executable, "-I", "-B", str(Path(holder.__file__)), *argv],
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


def _words(arguments: Sequence[str], leases: Sequence[int], agent: Sequence[str]) -> list[str]:
    return [*arguments, *(f"--lease={lease}" for lease in leases), "--", *agent]


def _wait() -> int:
    """Be a holder once the order comes on descriptor 0; there is nothing to do where it does not."""
    with socket.socket(fileno=os.dup(0)) as source:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        head, leases, _, _ = socket.recv_fds(source, _HEAD, MOST_LEASES)
        for lease in leases:
            os.set_inheritable(lease, False)  # noqa: FBT003 - has no name
        head += _received(source, _HEAD - len(head))
        message = _received(source, int(head)) if len(head) == _HEAD else b""
    if not message or len(message) != int(head):
        return 0
    told = json.loads(message)
    if told["leases"] != len(leases):
        print(f"holder: {len(leases)} of {told['leases']} leases came", file=sys.stderr, flush=True)
        return LOST_LEASES
    set_process_title(f"torchdeck holder: {_run_of(told['arguments'])}", PROCESS_NAME)
    return holder.main(_words(told["arguments"], leases, told["agent"]), told["order"])


def _run_of(arguments: Sequence[str]) -> str:
    """The run that a holder's arguments name."""
    words = dict(zip(arguments[::2], arguments[1::2], strict=False))
    return Path(words.get("--run-dir", "")).name


def _received(source: socket.socket, count: int) -> bytes:
    """So many bytes; fewer where the other end is gone."""
    found = b""
    while len(found) < count and (data := source.recv(count - len(found))):
        found += data
    return found
