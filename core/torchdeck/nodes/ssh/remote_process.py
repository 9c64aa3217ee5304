"""A command that runs on a node, on a channel of its own."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from typing import TYPE_CHECKING, Self

from torchdeck.nodes.ssh.errors import SshError, UnansweredError, UnreachableError

if TYPE_CHECKING:
    from paramiko import Channel

MOST_STDERR = 64 * 2**10
"""Bytes kept of standard error, the last ones."""
PIECE = 2**17
"""Bytes per write."""
WRITE_LIMIT = 60.0
"""Timeout in seconds while the node accepts no written byte."""
BREAKING = 2.0
"""Seconds until a breaking connection is known as lost: it closes its channels first."""


class RemoteProcess:
    """Remote command. One thread may read while another writes. Closing it does not end the command."""

    def __init__(self, node: str, channel: Channel) -> None:
        self._node = node
        self._channel = channel
        channel.settimeout(WRITE_LIMIT)
        # a copy stays open if another thread closes the channel, which would not wake the waiting thread
        # otherwise
        self._signal = os.dup(channel.fileno())
        self._errors = bytearray()
        self._taking = threading.Lock()
        self._closed = threading.Lock()
        self._given_up = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def stderr(self) -> bytes:
        """End of the command's standard error, as far as `read` and `wait` received it."""
        return bytes(self._errors)

    @property
    def exit_code(self) -> int | None:
        """Exit code; None while it runs; -1 if a signal ended it or it is unknown."""
        return self._channel.recv_exit_status() if self._channel.exit_status_ready() else None

    def write(self, data: bytes) -> None:
        """Write all of `data` to the command's standard input.

        Raises:
            UnansweredError: the node accepts nothing for `WRITE_LIMIT` seconds.
            UnreachableError: the connection was lost, or the command reads no more.
        """
        try:
            for start in range(0, len(data), PIECE):  # paramiko copies the whole rest for each packet
                self._channel.sendall(data[start : start + PIECE])
        except TimeoutError as error:
            raise UnansweredError(self._node, f"it has not accepted data for {WRITE_LIMIT:g} s") from error
        except OSError as error:
            raise UnreachableError(self._node, self._why_not_written()) from error

    def end_input(self) -> None:
        """Close the command's standard input."""
        try:
            self._channel.shutdown_write()
        except (OSError, EOFError):
            return  # it has ended

    def feed(self, data: bytes) -> None:
        """Write all data to the command's standard input from a thread, and then close it."""

        def give() -> None:
            try:
                self.write(data)
            except SshError:
                return  # the reader of its output gets the error
            self.end_input()

        if data:
            threading.Thread(target=give, name=f"input for {self._node}", daemon=True).start()
        else:
            self.end_input()

    def read(self, size: int, limit: float) -> bytes:
        """Read 1 to `size` bytes of its standard output; empty at its end.

        Raises:
            UnansweredError: no data for `limit` seconds.
            UnreachableError: the connection was lost before the command's end.
        """
        deadline = time.monotonic() + limit
        while True:
            self._take_errors()
            if self._channel.recv_ready():
                return self._channel.recv(size)
            if self._at_end():
                self._take_errors()
                if self._channel.recv_ready():
                    return self._channel.recv(size)
                if not self._channel.eof_received and self._lost():
                    raise UnreachableError(self._node, "the connection was lost while a command was running")
                return b""
            self._wait(deadline, limit)

    def wait(self, limit: float) -> int:
        """Return its exit code, once it has ended and its output was read.

        Raises:
            UnansweredError: it runs longer than `limit` seconds.
            UnreachableError: the connection was lost.
        """
        deadline = time.monotonic() + limit
        while not self._channel.status_event.wait(min(0.5, max(0.0, deadline - time.monotonic()))):
            self._take_errors()
            if time.monotonic() >= deadline:
                raise UnansweredError(self._node, f"a command did not end within {limit:g} s")
        self._take_errors()
        code = self._channel.recv_exit_status()
        if code == -1 and self._lost():
            raise UnreachableError(self._node, "the connection was lost while a command was running")
        return code

    def close(self) -> None:
        """Close the channel; a reader gets the end of the output."""
        self._given_up = True
        close_channel(self._channel)
        with self._closed:
            signal, self._signal = self._signal, -1
        if signal >= 0:
            os.close(signal)

    def _at_end(self) -> bool:
        return bool(self._channel.eof_received) or self._channel.closed

    def _lost(self) -> bool:
        """Return whether the channel was closed by the end of its connection."""
        transport = self._channel.get_transport()
        if not (self._given_up or self._channel.eof_received):
            # sshd ends a command's output before it closes: this connection will close very soon
            transport.join(BREAKING)
        return not transport.is_active()

    def _why_not_written(self) -> str:
        """Return the reason with the last output of a command that has ended: it is complete once its channel
        is closed.
        """
        if self._lost():
            return "the connection was lost"
        self._take_errors()
        lines = self.stderr.decode("utf-8", "replace").strip().splitlines()
        return f"the command has ended{f': {lines[-1][-300:]}' if lines else ''}"

    def _take_errors(self) -> None:
        with self._taking:  # else two threads may find the same bytes and one blocks
            while self._channel.recv_stderr_ready():
                self._errors += self._channel.recv_stderr(MOST_STDERR)
            del self._errors[:-MOST_STDERR]

    def _wait(self, deadline: float, limit: float) -> None:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise UnansweredError(self._node, f"no answer within {limit:g} s")
        with self._closed:
            signal = self._signal
        if signal < 0:
            return
        poll = select.poll()
        poll.register(signal, select.POLLIN)
        poll.poll(min(remaining, 1.0) * 1000)


def close_channel(channel: Channel) -> None:
    """Close the channel, and wake waiting threads; its sshd is notified if the connection is still up."""
    from paramiko.ssh_exception import SSHException

    with contextlib.suppress(SSHException, EOFError, OSError):
        channel.close()
