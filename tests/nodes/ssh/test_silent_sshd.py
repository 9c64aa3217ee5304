"""A server (paramiko's own) that opens sessions and never says whether it starts the command."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import paramiko
import pytest
from paramiko.common import AUTH_SUCCESSFUL, OPEN_SUCCEEDED

from torchdeck.nodes.ssh.connection import _execute, connect
from torchdeck.nodes.ssh.credentials import Credentials, NoAsker
from torchdeck.nodes.ssh.errors import UnansweredError
from torchdeck.nodes.ssh.host_keys import trust
from torchdeck.nodes.ssh.target import SshTarget

SECONDS = 60.0


class Silent(paramiko.ServerInterface):
    """Lets everybody in; who asks for a command waits until `over`."""

    def __init__(self, over: threading.Event) -> None:
        self.over = over

    def get_allowed_auths(self, _username: str) -> str:
        return "password"

    def check_auth_password(self, _username: str, _password: str) -> int:
        return AUTH_SUCCESSFUL

    def check_channel_request(self, _kind: str, _number: int) -> int:
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, _channel: object, _command: bytes) -> bool:
        self.over.wait(SECONDS)
        raise EOFError  # as where the client is gone: an answer would be written to no one


@contextmanager
def serving(known: Path) -> Iterator[SshTarget]:
    """The way to such a server, for one connection; its key is written into `known`."""
    key = paramiko.ECDSAKey.generate()
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connected, _ = listener.accept()
            transport = paramiko.Transport(connected)
            transport.add_server_key(key)
            transport.start_server(server=Silent(over))
            over.wait(SECONDS)
            transport.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            port = int(listener.getsockname()[1])
            trust(known, f"[127.0.0.1]:{port}", key.get_name(), key.asbytes())
            yield SshTarget("node1", "127.0.0.1", port, "root", known_hosts=(known,))
        finally:
            over.set()
            thread.join(SECONDS)


def test_who_starts_a_command_does_not_wait_for_ever(tmp_path: Path) -> None:
    """It is said what was waited for, and the connection is there for another try."""
    credentials = Credentials()
    with serving(tmp_path / "known_hosts") as target:
        credentials.set_password(target, "any")
        with connect(target, credentials, NoAsker(), 20.0) as connection:
            said = ""
            for limit in (0.5, 5.0, 20.0):
                with pytest.raises(UnansweredError) as caught:
                    connection.start("true", limit)
                said = str(caught.value)
                if "opened a session" in said:
                    break  # a busy machine may not get that far
            assert re.search(r"node1: .* started no command in it within [0-9.]+ s", said)
            assert connection.alive


class Interrupted:
    """A channel on which Ctrl-C comes once the limit has closed it."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def exec_command(self, _line: bytes) -> None:
        assert self.closed.wait(SECONDS)
        raise KeyboardInterrupt

    def close(self) -> None:
        self.closed.set()


def test_a_limit_replaces_no_interruption() -> None:
    """Who presses Ctrl-C while a command is begun without success is heard."""
    channel = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        _execute(cast("paramiko.Channel", channel), "true", "node1", 0.0)


class Broken(Interrupted):
    """A channel whose connection breaks as the limit comes: its end can be told to no one."""

    def exec_command(self, _line: bytes) -> None:
        assert self.closed.wait(SECONDS)
        raise paramiko.SSHException("Channel closed.")

    def close(self) -> None:
        super().close()
        raise EOFError


def test_a_limit_that_comes_as_the_connection_breaks_is_still_said() -> None:
    """And the timer's thread ends quietly: what it raised would be printed over the terminal."""
    with pytest.raises(UnansweredError, match="started no command"):
        _execute(cast("paramiko.Channel", Broken()), "true", "node1", 0.0)


class Started:
    """A channel on which a command starts as its limit comes: this one's timer is never called off."""

    closed = False

    def exec_command(self, _line: bytes) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def test_a_channel_that_was_handed_out_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit that comes between the answer and its end comes too late."""
    timers: list[threading.Timer] = []
    monkeypatch.setattr(threading.Timer, "start", lambda timer: timers.append(timer))
    channel = Started()
    _execute(cast("paramiko.Channel", channel), "true", "node1", 0.0)
    (timer,) = timers
    timer.function()
    assert not channel.closed
