"""Two ends that hold the same key get each other's bytes, in order; any other end gets nothing."""

import socket
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.distributed.store.proof import Sealing, StrangerError, demand_proof, prove

KEY = b"k" * 32


def _both(connecting: Callable[[socket.socket], object]) -> tuple[object, object]:
    """What the end that connects and the one that accepts come to."""
    mine, theirs = socket.socketpair()
    found: list[object] = []

    def connect() -> None:
        try:
            found.append(connecting(mine))
        except (StrangerError, OSError) as error:
            found.append(error)
        finally:
            mine.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=connect)
    thread.start()
    accepted: object
    with mine, theirs:
        try:
            accepted = demand_proof(theirs, KEY)
        except StrangerError as error:
            accepted = error
            theirs.close()
        thread.join()
    return found[0], accepted


def test_ends_of_one_run_understand_each_other() -> None:
    """Both ways, and neither end reads its own."""
    connecting, accepting = _both(lambda mine: prove(mine, KEY))
    assert isinstance(connecting, Sealing)
    assert isinstance(accepting, Sealing)
    assert accepting.open(connecting.seal(b"up" * 100_000)) == b"up" * 100_000
    assert connecting.open(accepting.seal(b"down")) == b"down"
    with pytest.raises(StrangerError):
        connecting.open(connecting.seal(b"reflected"))


def test_another_key_is_refused_by_both() -> None:
    """The end that accepts proves itself first, so that a stranger in its place learns nothing."""
    connecting, accepting = _both(lambda mine: prove(mine, b"x" * 32))
    assert str(connecting) == "what listens there does not hold the key of this run"
    assert str(accepting) == "it closed the connection before it proved who it is"


@pytest.mark.parametrize(
    "said",
    [b"", b"\0", b"GET / HTTP/1.1\r\n\r\n" + b"x" * 100, b"torchdeck-store 1\n" + b"n" * 32 + b"p" * 32],
)
def test_what_strangers_say_is_refused(said: bytes) -> None:
    """Nothing, too little, another protocol, and a proof that is none."""
    _, accepting = _both(lambda mine: mine.sendall(said))
    assert isinstance(accepting, StrangerError)


@given(st.binary(min_size=1, max_size=300), st.integers(0), st.integers(1, 255))
def test_a_changed_byte_is_noticed(content: bytes, at: int, change: int) -> None:
    """Wherever it is: no byte of what was changed comes out; at worst the rest is waited for."""
    frames = bytearray(Sealing(b"a", b"b").seal(content))
    frames[at % len(frames)] ^= change
    reader = Sealing(b"b", b"a")
    try:
        assert reader.open(bytes(frames)) == b""
    except StrangerError:
        return


def test_a_repeated_or_missing_frame_is_noticed() -> None:
    """Frames are numbered."""
    sender = Sealing(b"a", b"b")
    first, second = sender.seal(b"one"), sender.seal(b"two")
    reader = Sealing(b"b", b"a")
    assert reader.open(first) == b"one"
    with pytest.raises(StrangerError, match="not what was sent"):
        reader.open(first)
    with pytest.raises(StrangerError, match="not what was sent"):
        Sealing(b"b", b"a").open(second)


@given(st.lists(st.binary(max_size=50), max_size=8), st.integers(1, 40))
def test_frames_may_come_in_any_pieces(contents: list[bytes], size: int) -> None:
    """As a network cuts them."""
    sender, reader = Sealing(b"a", b"b"), Sealing(b"b", b"a")
    frames = b"".join(sender.seal(content) for content in contents)
    pieces = [frames[at : at + size] for at in range(0, len(frames), size)]
    assert b"".join(reader.open(piece) for piece in pieces) == b"".join(contents)


def test_one_byte_now_and_then_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is for all of the handshake."""
    monkeypatch.setattr("torchdeck.distributed.store.proof.HANDSHAKE_LIMIT", 0.5)
    mine, theirs = socket.socketpair()
    over = threading.Event()

    def drip() -> None:
        for byte in b"torchdeck-store 1" * 3:
            if over.wait(0.1):
                return
            mine.sendall(bytes([byte]))

    thread = threading.Thread(target=drip)
    thread.start()
    with mine, theirs:
        with pytest.raises(TimeoutError):
            demand_proof(theirs, KEY)
        over.set()
        thread.join()
