"""Which of a clock's offsets counts, and that it can be read while another comes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.links.local_stream import LocalStream
from torchdeck.contract.frames import encode
from torchdeck.launching.remote import link_session
from torchdeck.launching.remote.link_session import KEPT, ClockOffset, ClockOffsets, LinkSession
from torchdeck.launching.remote.mirror import Mirror


@pytest.fixture
def _threads_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_the_least_error_counts_for_a_while() -> None:
    """It is half of what the asking took; what is old is forgotten, since clocks drift."""
    assert ClockOffsets().best is None
    clock = ClockOffsets()
    clock.add(asked=10.0, node_time=1005.0, now=10.5, wall=1000.25)
    clock.add(asked=20.0, node_time=1015.0, now=20.25, wall=1010.125)
    clock.add(asked=30.0, node_time=1025.0, now=31.0, wall=1020.5)
    assert clock.best == ClockOffset(5.0, 0.125)
    for _ in range(KEPT):
        clock.add(asked=40.0, node_time=1044.0, now=42.0, wall=1041.0)
    assert clock.best == ClockOffset(4.0, 1.0)


class HeldUp:
    """Clocks of a process that is stalled for a second before each look at one."""

    def __init__(self) -> None:
        self.passed = 0.0

    def monotonic(self) -> float:
        self.passed += 1.0
        return 100.0 + self.passed

    def time(self) -> float:
        self.passed += 1.0
        return 5_000.0 + self.passed


@pytest.mark.processes
def test_who_is_held_up_between_two_clocks_knows_how_wrong_the_offset_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's clock is 7 s ahead; it answered half a second after it was asked."""
    stream = LocalStream(["cat"])
    try:
        link = LinkSession(stream, Mirror(tmp_path, "n1"), lambda _text: None)
        monkeypatch.setattr(link_session, "time", HeldUp())
        link._take(encode("pong", t=100.0, node_time=5_007.5))
    finally:
        monkeypatch.undo()
        stream.kill()
    assert link.clock.best is not None
    assert abs(link.clock.best.offset - 7.0) <= link.clock.best.error < 3.0


@pytest.mark.usefixtures("_threads_change_often")
def test_it_is_read_while_answers_come() -> None:
    """By the controller's loop, which tells how links are, while each link's thread takes answers."""
    clock = ClockOffsets()
    over = threading.Event()

    def answer() -> None:
        while not over.is_set():
            clock.add(0.0, 1.0, 2.0, 3.0)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            assert clock.best in (None, ClockOffset(-1.0, 1.0))
    finally:
        over.set()
        thread.join(10)
