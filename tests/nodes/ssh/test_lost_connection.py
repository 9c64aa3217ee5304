"""A connection that breaks closes its channels a moment before it says that it is lost."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import cast

import paramiko
import pytest

from torchdeck.nodes.ssh.errors import UnreachableError
from torchdeck.nodes.ssh.remote_process import RemoteProcess


class Breaking:
    """paramiko's transport between the two: its thread has a few steps left."""

    def __init__(self) -> None:
        self.active = True
        self.joined = 0

    def is_active(self) -> bool:
        return self.active

    def join(self, _limit: float) -> None:
        self.joined += 1
        self.active = False


class Closed:
    """A channel that is closed already; `eof` where the command's end was said before."""

    closed = True

    def __init__(self, transport: Breaking, descriptor: int, *, eof: bool) -> None:
        self.eof_received = eof
        self._transport = transport
        self._descriptor = descriptor

    def get_transport(self) -> Breaking:
        return self._transport

    def fileno(self) -> int:
        return self._descriptor

    def settimeout(self, _seconds: float) -> None:
        pass

    def recv_ready(self) -> bool:
        return False

    recv_stderr_ready = recv_ready

    def sendall(self, _data: bytes) -> None:
        raise OSError("Socket is closed")

    def close(self) -> None:
        if not self.eof_received:
            raise EOFError  # as paramiko's, where it cannot tell sshd any more


@contextmanager
def process_of(transport: Breaking, *, eof: bool = False) -> Iterator[RemoteProcess]:
    reading, writing = os.pipe()
    os.close(writing)
    channel = cast("paramiko.Channel", Closed(transport, reading, eof=eof))
    try:
        with closing(RemoteProcess("node1", channel)) as process:
            yield process
    finally:
        os.close(reading)


def test_it_is_not_taken_for_the_end_of_the_command() -> None:
    """Neither by who reads nor by who writes."""
    with process_of(Breaking()) as process, pytest.raises(UnreachableError, match="the connection was lost"):
        process.read(10, 5.0)
    with process_of(Breaking()) as process, pytest.raises(UnreachableError, match="the connection was lost"):
        process.write(b"x")


def test_a_command_that_has_ended_is_not_waited_for() -> None:
    """Nor is a process that was closed here."""
    transport = Breaking()
    with process_of(transport, eof=True) as process:
        assert process.read(10, 5.0) == b""
    with process_of(transport) as process:
        process.close()
        assert process.read(10, 5.0) == b""
    assert transport.joined == 0
