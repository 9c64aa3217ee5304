"""Sending a run's code over its link, and how far that is said to be."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from support.links.code_transfer import code_of, content_below, written
from support.links.linked import NODE, LinkedRun
from support.links.local_stream import LocalStream
from support.values.machines import plan
from support.waiting import wait_until
from torchdeck.launching.code.capture import capture
from torchdeck.launching.remote.bootstrap import ByteStream
from torchdeck.launching.remote.code import CodeSending
from torchdeck.launching.remote.link import LinkFile
from torchdeck.runs.links import LinkState, read_links

pytestmark = pytest.mark.processes

SIZE = 8 << 20
FREE = 3 << 20
"""Bytes that the connection takes before it is stalled."""


class HeldStream:
    """A connection that takes so many bytes, and the others when it is let go."""

    def __init__(self, stream: LocalStream, free: int) -> None:
        self._stream, self._left = stream, free
        self.let_go = threading.Event()

    def write(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            assert self.let_go.wait(60), "the connection is never let go"
        self._stream.write(data)

    def read(self, size: int, limit: float) -> bytes:
        return self._stream.read(size, limit)

    @property
    def exit_code(self) -> int | None:
        return self._stream.exit_code

    @property
    def stderr(self) -> str:
        return self._stream.stderr

    def close(self) -> None:
        self.let_go.set()
        self._stream.close()


def test_how_far_the_code_is_stands_in_links_json(run: LinkedRun, tmp_path: Path) -> None:
    """While it is being sent; and it is said no longer once the node has it."""
    files = {"train.py": b"print(1)\n", "data.bin": os.urandom(SIZE)}
    capture(run.here, plan(code=code_of(written(tmp_path / "work", files), run.home)), run.home)
    held: list[HeldStream] = []

    def hold(stream: LocalStream) -> ByteStream:
        held.append(HeldStream(stream, FREE))
        return held[-1]

    run.wrap = hold
    run.bundle_there()
    run.up()
    sending = CodeSending(run.here, run.link)
    file = LinkFile(run.here, [run.link], sending.with_progress)

    def told() -> LinkState:
        file.look(at_once=True)
        links = read_links(run.here)
        assert links is not None
        return links.nodes[NODE]

    wait_until(lambda: (told().code_sent or 0) > FREE // 2, 30, "code to be on its way")
    here = told()
    assert here.is_sent_code
    assert here.code_size == sum(map(len, files.values()))
    assert 0 < (here.code_sent or 0) < SIZE
    held[-1].let_go.set()
    wait_until(lambda: sending.done or sending.why, 30, "the node to have the code")
    assert sending.why == ""
    assert not told().is_sent_code
    assert content_below(run.there.code) == files
