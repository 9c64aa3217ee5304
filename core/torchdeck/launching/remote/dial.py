"""Connection to a node's Python over SSH."""

from __future__ import annotations

import contextlib

from torchdeck.launching.remote.bootstrap import PYTHON_ARGUMENTS
from torchdeck.launching.remote.link import NeedsLoginError, RefusedError
from torchdeck.nodes.activation import start_python
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.ssh.connection import Connection, connect
from torchdeck.nodes.ssh.credentials import Asker, Credentials
from torchdeck.nodes.ssh.errors import NeedsLoginError as LoginError
from torchdeck.nodes.ssh.errors import SshError, UnansweredError
from torchdeck.nodes.ssh.remote_process import RemoteProcess
from torchdeck.nodes.ssh.target import SshTarget


def dial_of(connector: Connector, name: str, entry: NodeEntry) -> SshDial:
    """Return a dial to a node with the inventory entry `entry`. Raises ConfigError, TargetError."""
    return SshDial(connector.target(name), connector.credentials, connector.asker, entry)


LEAST_SHELL_START = 10.0
"""Seconds for a login shell to run its start-up files, regardless of the time taken to connect."""


class SshStream:
    """A process on a node and its dedicated connection, as a `ByteStream`."""

    def __init__(self, connection: Connection, process: RemoteProcess) -> None:
        self._connection = connection
        self._process = process

    def write(self, data: bytes) -> None:
        try:
            self._process.write(data)
        except SshError as error:
            raise ConnectionError(str(error)) from error

    def read(self, size: int, limit: float) -> bytes:
        try:
            return self._process.read(size, limit)
        except UnansweredError as error:
            raise TimeoutError(str(error)) from error
        except SshError as error:
            raise ConnectionError(str(error)) from error

    @property
    def exit_code(self) -> int | None:
        return self._process.exit_code

    @property
    def stderr(self) -> str:
        """The end of the process's standard error."""
        return self._process.stderr.decode("utf-8", "replace").strip()

    def close(self) -> None:
        # paramiko also raises if the other end is just closing it
        for close in (self._process.close, self._connection.close):
            with contextlib.suppress(EOFError, OSError, SshError):
                close()


class SshDial:
    """Opens a new connection to one node at every call."""

    def __init__(self, target: SshTarget, credentials: Credentials, asker: Asker, entry: NodeEntry) -> None:
        """Initialise without connecting.

        Args:
            target: the node.
            credentials: passwords and passphrases known beforehand.
            asker: prompts for others; a controller has no user to prompt.
            entry: its entry in the node inventory, which names its Python.
        """
        self._target = target
        self._credentials = credentials
        self._asker = asker
        self._entry = entry

    def __call__(self, limit: float) -> SshStream:
        """Connect and start the node's Python.

        Raises:
            NeedsLoginError: the node rejects the known credentials.
            RefusedError: its host key is unknown or has changed, its known settings lead to no host, its
                login shell runs no commands, or the trust list cannot be used.
            OSError: it cannot be reached within `limit` seconds.
        """
        try:
            connection = connect(self._target, self._credentials, self._asker, limit)
        except LoginError as error:
            raise NeedsLoginError(str(error)) from error
        except SshError as error:
            raise _failed(error) from error
        try:
            left = max(LEAST_SHELL_START, limit - connection.seconds)
            return SshStream(connection, start_python(connection, self._entry, PYTHON_ARGUMENTS, left))
        except SshError as error:
            connection.close()
            raise _failed(error) from error


def _failed(error: SshError) -> RefusedError | ConnectionError:
    return RefusedError(str(error)) if error.lasts else ConnectionError(str(error))
