"""Who reaches a store behind a front: real sockets, and another user where there can be one."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from support.system.free_port import free_port
from support.system.users import User, others_python
from support.waiting import wait_until
from torchdeck.agent.store_order import StoreStrangers
from torchdeck.contract.network.peer_owner import owner_of_peer
from torchdeck.distributed.store import access, private_listener
from torchdeck.distributed.store.access import (
    LOOPBACK,
    Front,
    Strangers,
    of_this_user,
    through,
    with_key,
)
from torchdeck.distributed.store.listening_socket import listening_on
from torchdeck.distributed.store.private_listener import ADDRESS, PrivateListener
from torchdeck.distributed.store.proof import StrangerError
from torchdeck.distributed.store.relay import End, Relay

KEY = b"k" * 32
NOBODY = 65534
LIMIT = 10.0


def _cannot(*_: object) -> bool:
    return False


@pytest.fixture(params=["signed", pytest.param("filtered", marks=pytest.mark.root)])
def private(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateListener]:
    """Behind it whatever is said is said back."""
    if request.param == "filtered":
        monkeypatch.setattr(private_listener, "sign", _cannot)
    listener = PrivateListener(0)
    serving = socket.socket(fileno=listener.descriptor())

    def serve() -> None:
        while True:
            try:
                connection, _ = serving.accept()
            except OSError:
                return
            threading.Thread(target=_echo, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listener
    serving.shutdown(socket.SHUT_RDWR)
    serving.close()
    listener.close()


def _echo(connection: socket.socket) -> None:
    with connection:
        while content := connection.recv(1 << 16):
            connection.sendall(content)


def _said_back(connection: socket.socket, content: bytes) -> bytes:
    connection.settimeout(LIMIT)
    threading.Thread(target=connection.sendall, args=(content,), daemon=True).start()
    found = b""
    while len(found) < len(content) and (piece := connection.recv(1 << 16)):
        found += piece
    return found


def test_no_one_else_connects_to_a_private_listener(private: PrivateListener) -> None:
    """The kernel drops what comes from a port that is not its own process's."""
    for _ in range(100):
        with private.connect() as ours:
            assert _said_back(ours, b"hello") == b"hello"
    with socket.socket() as stranger:
        stranger.settimeout(0.3)
        with pytest.raises(TimeoutError):
            stranger.connect((ADDRESS, private.port))


def test_many_connections_at_once_pass_much(private: PrivateListener) -> None:
    """More than one chunk each, at the same time, and every byte comes back."""
    listener = listening_on(LOOPBACK, 0)
    Front(listener, of_this_user, lambda: End(private.connect()), Relay(), Strangers())
    found: list[bool] = []

    def talk(number: int) -> None:
        with socket.create_connection(listener.getsockname()) as connection:
            content = bytes([number]) * 1_000_000
            found.append(_said_back(connection, content) == content)

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 8


def test_a_limit_of_threads_ends_no_front(
    private: PrivateListener, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A connection for which no thread starts is closed and not counted for ever; the next one is served."""
    begin, missing = threading.Thread.start, [True] * 3

    def start(thread: threading.Thread) -> None:
        if thread.name == "store peer" and missing:
            missing.pop()
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    monkeypatch.setattr(access, "_MOST_UNPROVED", 2)
    listener = listening_on(LOOPBACK, 0)
    Front(listener, of_this_user, lambda: End(private.connect()), Relay(), Strangers())
    for _ in range(3):
        with socket.create_connection(listener.getsockname(), LIMIT) as ours:
            assert ours.recv(1) == b""
    with socket.create_connection(listener.getsockname(), LIMIT) as ours:
        assert _said_back(ours, b"hello") == b"hello"
    assert "no thread could be started for it" in capsys.readouterr().err


@pytest.mark.root
def test_another_user_of_the_machine_is_refused(
    private: PrivateListener, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its connection ends without a byte; it is counted for the agent, and reported."""
    listener = listening_on(LOOPBACK, 0)
    strangers = Strangers(tmp_path / "strangers.json")
    Front(listener, of_this_user, lambda: End(private.connect()), Relay(), strangers)
    code = (
        "import encodings.idna, os, socket\n"
        f"os.setgroups([])\nos.setgid({NOBODY})\nos.setuid({NOBODY})\n"
        f"connection = socket.create_connection(('127.0.0.1', {listener.getsockname()[1]}))\n"
        "connection.settimeout(10)\n"
        "try:\n    connection.sendall(b'hello')\n    print(connection.recv(9))\n"
        "except ConnectionResetError:\n    print(b'')\n"
    )
    for _ in range(12):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "b''\n"
    wait_until(lambda: strangers.count == 12, LIMIT, "all of them to be counted")
    said = capsys.readouterr().err
    assert (
        f"a connection from 127.0.0.1 to the run's store was refused: it is of another user ({NOBODY})"
        in said
    )
    assert said.count("refused") == 6  # the first five, and the tenth
    with socket.create_connection(listener.getsockname()) as ours:
        assert _said_back(ours, b"hello") == b"hello"


def test_the_agent_hears_of_strangers_at_a_bounded_rate(tmp_path: Path) -> None:
    """The first, and each time there are ten times as many."""
    path = tmp_path / "strangers.json"
    news = StoreStrangers(path)
    assert news.news() is None
    told = []
    for count in (1, 2, 9, 10, 11, 150):
        path.write_text(f'{{"count": {count}, "address": "10.0.0.1", "why": "it is one"}}')
        os.utime(path, ns=(count, count))
        told.append(news.news())
    assert [None if value is None else value["count"] for value in told] == [1, None, None, 10, None, 150]
    path.write_text("[" * 100_000)
    assert news.news() is None


def test_only_a_node_with_the_key_gets_through(private: PrivateListener) -> None:
    """Through two fronts, as from another node; a stranger is closed, counted, and holds no one up."""
    relay, strangers = Relay(), Strangers()
    meeting_point = listening_on("127.0.0.1", 0)
    Front(meeting_point, with_key(KEY), lambda: End(private.connect()), relay, strangers)
    address, port = meeting_point.getsockname()
    local = listening_on(LOOPBACK, 0)
    Front(local, of_this_user, through(address, port, KEY, LIMIT), relay, Strangers())
    silent = socket.create_connection((address, port))
    with socket.create_connection((address, port)) as stranger:
        stranger.settimeout(LIMIT)
        stranger.sendall(b"\0" * 200)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(9) == b""
    with socket.create_connection(local.getsockname()) as ours:
        assert _said_back(ours, b"x" * 1_000_000) == b"x" * 1_000_000
    wait_until(lambda: strangers.count == 1, LIMIT, "the stranger to be counted")
    silent.close()
    wait_until(lambda: strangers.count == 2, LIMIT, "the silent one to be counted")


def _has_no_owner(connection: socket.socket) -> bool:
    return owner_of_peer(connection) is None


def test_whose_a_connection_is(private: PrivateListener) -> None:
    """Over IPv4, over IPv6's sockets as torch makes them, and not once the other end is closed; by either
    end.
    """
    with socket.create_server((LOOPBACK, 0)) as listener:
        for family, host in ((socket.AF_INET, LOOPBACK), (socket.AF_INET6, f"::ffff:{LOOPBACK}")):
            with socket.socket(family) as connecting:
                connecting.connect((host, listener.getsockname()[1]))
                accepted, _ = listener.accept()
                assert owner_of_peer(accepted) == os.geteuid()
                assert owner_of_peer(connecting) == os.geteuid()
            with accepted:
                wait_until(partial(_has_no_owner, accepted), LIMIT, "its end to be seen")


CLOSED_TO_OTHERS = """
import socket
from torchdeck.distributed.store.private_listener import ADDRESS, PrivateListener
listener = PrivateListener(0)
serving = socket.socket(fileno=listener.descriptor())
ours = listener.connect()
theirs, _ = serving.accept()
ours.sendall(b"hello")
print(theirs.recv(5))
for address in ("127.0.0.1", "127.0.0.2", "127.0.0.9"):
    with socket.socket() as stranger:
        stranger.bind((address, 0))
        stranger.settimeout(0.3)
        print(stranger.connect_ex((ADDRESS, listener.port)) != 0)
"""


@pytest.mark.root
def test_a_user_without_privileges_has_a_private_listener(tmp_path: Path) -> None:
    """Root may more than others, and these tests often run as root."""
    code, output, errors = User(NOBODY, tmp_path).run(
        [others_python(), "-c", CLOSED_TO_OTHERS], cwd=Path("/")
    )
    assert (code, errors) == (0, "")
    assert output.splitlines() == ["b'hello'", "True", "True", "True"]


def test_a_kernel_that_can_neither_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run continues: it listens on the loopback interface, as torch's own store would on all."""

    def refuse(_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(private_listener, "sign", _cannot)
    monkeypatch.setattr(PrivateListener, "_filter", refuse)
    listener = PrivateListener(0)
    listener.connect().close()
    listener.close()
    assert "neither signs nor filters connections (Operation not permitted)" in capsys.readouterr().err


def test_a_node_that_comes_too_early_or_in_a_flood_tries_again(private: PrivateListener) -> None:
    """Nothing listens yet, then connections are closed at once; another key is never tried twice."""
    address, port = LOOPBACK, free_port()
    ends: list[End] = []
    thread = threading.Thread(target=lambda: ends.append(through(address, port, KEY, LIMIT)()))
    thread.start()
    with socket.create_server((address, port)) as busy:
        for _ in range(3):
            busy.accept()[0].close()
    Front(listening_on(address, port), with_key(KEY), lambda: End(private.connect()), Relay(), Strangers())
    thread.join(LIMIT)
    assert len(ends) == 1
    ends[0].connection.close()
    with pytest.raises(StrangerError, match="does not hold the key"):
        through(address, port, b"x" * 32, LIMIT)()
