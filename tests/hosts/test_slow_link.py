"""The slow link carries what it is given, as slowly and as far as it is told, and can be cut."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.hosts.hosts import TestHosts
from support.links.slow_link import SlowLink, through
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.ssh.connection import connect
from torchdeck.nodes.ssh.credentials import Credentials, NoAsker
from torchdeck.nodes.ssh.target import target_for


@contextmanager
def echo() -> Iterator[int]:
    """A server that gives back what it gets; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                while data := connection.recv(65536):
                    connection.sendall(data)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)


def received(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := connection.recv(65536)):
        data += more
    return data


def test_what_goes_in_comes_out_at_the_links_speed() -> None:
    data = bytes(range(256)) * 200
    with echo() as port, SlowLink("127.0.0.1", port, bytes_per_second=100_000, delay=0.1) as link:
        with socket.create_connection((link.address, link.port), 20) as connection:
            begin = time.monotonic()
            connection.sendall(b"x")
            assert received(connection, 1) == b"x"
            assert time.monotonic() - begin >= 0.2
            begin = time.monotonic()
            connection.sendall(data)
            assert received(connection, len(data)) == data
            assert time.monotonic() - begin >= len(data) / 100_000
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
        assert link.carried == 2 * (len(data) + 1)


def test_a_held_link_delivers_later_and_a_cut_one_never() -> None:
    with echo() as port, SlowLink("127.0.0.1", port) as link:
        connection = socket.create_connection((link.address, link.port), 20)
        with connection:
            link.hold()
            connection.sendall(b"held")
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            link.release()
            connection.settimeout(20)
            assert received(connection, 4) == b"held"
            link.cut()
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b""
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((link.address, link.port), 20)
        link.heal()
        with socket.create_connection((link.address, link.port), 20) as again:
            again.sendall(b"back")
            assert received(again, 4) == b"back"


def test_ssh_goes_over_a_slow_link(hosts: Callable[..., TestHosts], torchdeck_home: Path) -> None:
    made = hosts(1)
    with SlowLink(made.address(1), 22, bytes_per_second=125_000, delay=0.1) as link:
        known = made.known_hosts.replace(made.address(1), f"[127.0.0.1]:{link.port}")
        (torchdeck_home / "known_hosts").write_text(known)
        entry = NodeEntry(**through(link, made.entry, 1))
        target = target_for("node1", entry, NodeInventory(), torchdeck_home)
        with connect(target, Credentials(), NoAsker(), 60) as connection:
            begin = time.monotonic()
            assert connection.run("true", limit=60).code == 0
            assert time.monotonic() - begin >= 0.2
