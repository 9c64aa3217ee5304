"""Connections between nodes, measured over real sockets."""

import socket

import pytest

from torchdeck.agent.probe.network import WORD_LENGTH, Listener, reach

WORD = "w" * WORD_LENGTH


def peer(port: int, node: str = "b") -> dict[str, object]:
    return {"node": node, "address": "127.0.0.1", "port": port}


def test_what_listens_is_reached_and_measured() -> None:
    """Latency of a word there and back, bytes a second."""
    listener = Listener("127.0.0.1", 0, WORD, 20.0)
    (found,) = reach([peer(listener.port)], WORD, 10.0, 4 * 2**20)
    assert (found["node"], found["ok"], found["error"]) == ("b", True, "")
    assert 0 < found["latency"] < 1
    assert found["bandwidth"] > 2**20


def test_many_are_reached_at_once() -> None:
    """In the order in which they were named, with those that are not there said."""
    listener = Listener("127.0.0.1", 0, WORD, 20.0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound and not listening: no one else gets it meanwhile
        closed = free.getsockname()[1]
        found = reach([peer(listener.port, "a"), peer(closed, "b"), peer(listener.port, "c")], WORD, 5.0, 0)
    assert [(item["node"], item["ok"], item["bandwidth"]) for item in found] == [
        ("a", True, None),
        ("b", False, None),
        ("c", True, None),
    ]
    assert "refused" in found[1]["error"].lower()


def test_a_stranger_is_not_answered() -> None:
    """Who does not know the word learns nothing, and neither is someone else's service taken for ours."""
    listener = Listener("127.0.0.1", 0, WORD, 20.0)
    (found,) = reach([peer(listener.port)], "x" * WORD_LENGTH, 5.0, 0)
    assert not found["ok"]
    assert "another program listens there" in found["error"]


def test_what_does_not_answer_is_given_up() -> None:
    """A port on which someone accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (found,) = reach([peer(silent.getsockname()[1])], WORD, 0.3, 0)
    assert not found["ok"]
    assert "0.3 s" in found["error"]


def test_a_listener_ends_by_itself() -> None:
    """It leaves no port open, whatever becomes of who asked for it."""
    listener = Listener("127.0.0.1", 0, WORD, 0.2)
    assert listener.wait(10.0)
    with (
        pytest.raises(ConnectionRefusedError),
        socket.create_connection(("127.0.0.1", listener.port), timeout=5),
    ):
        pass


def test_an_address_that_is_not_ours_is_refused() -> None:
    """TEST-NET-1 (RFC 5737) is nobody's."""
    with pytest.raises(OSError, match="assign"):
        Listener("192.0.2.1", 0, WORD, 1.0)
