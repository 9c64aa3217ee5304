"""Byte stream to a host's sshd: by TCP, through a command, or through a channel of the previous host."""

from __future__ import annotations

import signal
import socket
import tempfile
import time
from concurrent.futures import wait
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from torchdeck.agent.processes.child_process import ChildProcess
from torchdeck.nodes.background import in_background
from torchdeck.nodes.ssh.errors import UnreachableError, reason
from torchdeck.nodes.ssh.target import SshTarget

if TYPE_CHECKING:
    from paramiko import Channel, Transport

UNACKNOWLEDGED = 15.0
"""Seconds without any acknowledgement after which a connection is dropped."""
PROXY_GRACE = 2.0


@dataclass
class Route:
    """An open byte stream, and the resources to close with it."""

    stream: socket.socket | Channel
    proxy: ChildProcess | None = None
    said: IO[bytes] | None = None
    """Standard error of the proxy command."""

    def close(self) -> None:
        """Close the stream, end and reap the proxy command."""
        self.stream.close()
        if self.proxy is not None:
            self.proxy.end(signal.SIGTERM, PROXY_GRACE)
        if self.said is not None:
            self.said.close()

    def complaint(self) -> str:
        """Return the last line of the proxy command's standard error."""
        if self.said is None or self.said.closed:
            return ""
        self.said.seek(0)
        lines = self.said.read(10_000).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""


def open_route(target: SshTarget, before: Transport | None, deadline: float) -> Route:
    """Open a stream to `target`'s sshd.

    Args:
        target: destination.
        before: the previous hop, logged in; None if this machine connects.
        deadline: time of the timeout, by the monotonic clock.

    Raises:
        UnreachableError: the host does not answer.
    """
    if before is not None:
        return _through(target, before, deadline)
    if target.proxy_command is not None:
        return _by_command(target, target.proxy_command)
    return Route(_by_tcp(target, deadline))


def _by_tcp(target: SshTarget, deadline: float) -> socket.socket:
    place = f"{target.host}, port {target.port},"
    why = f"{place} did not answer within the time limit"
    for family, kind, protocol, _, address in _addresses(target, deadline):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            connection.connect(address)
        except TimeoutError:
            connection.close()
        except OSError as error:
            connection.close()
            why = f"{place} cannot be reached: {error.strerror or error}"
        else:
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
                limit = int(UNACKNOWLEDGED * 1000)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit)
            return connection
    raise UnreachableError(target.name, f"{why}; is it on, and is the address right?")


_Address = tuple[
    socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int]
]


def _addresses(target: SshTarget, deadline: float) -> list[_Address]:
    """Return all addresses of the host's name. A resolver has no timeout of its own, so a thread waits for
    it.
    """

    def resolve() -> list[_Address]:
        return socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)  # type: ignore[return-value]  # streams are IP alone

    answer = in_background([resolve], 1, f"resolve {target.host}")[0]
    wait([answer], max(0.001, deadline - time.monotonic()))
    if not answer.done():
        raise UnreachableError(target.name, f"the name {target.host} was not resolved within the time limit")
    try:
        return answer.result()
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UnreachableError(target.name, f"the name {target.host} has no address: {why}") from None


def _by_command(target: SshTarget, command: str) -> Route:
    ours, theirs = socket.socketpair()
    said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the way
    with theirs:
        try:
            proxy = ChildProcess(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=said,
            )
        except (OSError, ValueError) as error:
            ours.close()
            said.close()
            raise UnreachableError(target.name, f"its ProxyCommand cannot be started: {error}") from error
    return Route(ours, proxy, said)


def _through(target: SshTarget, before: Transport, deadline: float) -> Route:
    from paramiko.ssh_exception import ChannelException, SSHException

    limit = max(0.001, deadline - time.monotonic())
    try:
        channel = before.open_channel(
            "direct-tcpip", (target.host, target.port), ("127.0.0.1", 0), timeout=limit
        )
    except ChannelException as error:
        why = f"the host before it says: {error.text}"
        raise UnreachableError(
            target.name, f"{target.host}, port {target.port}, cannot be reached: {why}"
        ) from error
    except (SSHException, EOFError, OSError) as error:
        why = reason(error)
        raise UnreachableError(
            target.name,
            f"{target.host}, port {target.port}, cannot be reached through the host before it: {why}",
        ) from error
    return Route(channel)
