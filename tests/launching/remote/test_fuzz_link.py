"""Hostile frames at both ends of a link."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from torchdeck.agent.link.files_to_send import Sources
from torchdeck.agent.link.flow_control import Window
from torchdeck.contract.atomic import write_json
from torchdeck.contract.frames import FrameError, FrameReader
from torchdeck.launching.remote.link_session import LinkLostError, LinkSession
from torchdeck.launching.remote.mirror import Mirror, MirrorRefusedError

LOG = "attempts/1/ranks/0/stdout.log"
OF_NODE = (
    {"k": "hello", "v": 2, "shared": False, "boot": "b", "python": "3.11", "node_time": 1e9},
    {"k": "put", "path": LOG, "at": 0},
    {"k": "put", "path": "nodes/n1/journal.jsonl", "at": 0},
    {"k": "piece", "path": "nodes/n1/heartbeat.json", "at": 0, "last": True},
    {"k": "ask", "path": LOG},
    {"k": "cut", "path": LOG, "size": 0},
    {"k": "status", "alive": {"agent": True}, "exit": None, "starting": False, "behind": 3},
    {"k": "pong", "t": 1.0, "node_time": 1e9},
    {"k": "reply", "id": 1},
    {"k": "say", "text": "x"},
    {"k": "holds", "level": 4},
)
OF_CONTROLLER = (
    {"k": "ack", "total": 0},
    {"k": "have", "path": LOG, "size": 0, "older": "", "newer": "", "whole": ""},
    {"k": "have", "path": "nodes/n1/journal.jsonl", "unwanted": True},
    {"k": "hold", "level": 4},
    {"k": "ping", "t": 1.0},
)


@st.composite
def frames(draw: st.DrawFn, *heads: object) -> bytes:
    """Some frames one after the other, of which some are none."""
    content = b""
    for _ in range(draw(st.integers(1, 6))):
        head = draw(hostile.documents(*heads))
        body = draw(st.binary(max_size=64))
        lengths = (len(head), len(body))
        if draw(st.integers(0, 9)) == 0:
            lengths = draw(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)))
        content += struct.pack("!II", *lengths) + head + body
    return draw(hostile.damaged(content)) if draw(st.integers(0, 3)) == 0 else content


class _Silent:
    """A stream that takes everything and says nothing."""

    stderr = ""
    exit_code: int | None = None

    def read(self, _size: int, _limit: float) -> bytes:
        raise TimeoutError

    def write(self, data: bytes) -> None:
        assert len(data) < 1 << 20

    def close(self) -> None:
        pass


def take_as_the_controller(case: bytes, place: Path) -> None:
    """Nothing of it comes to lie outside of the node's part."""
    root = place / "run"
    root.mkdir()
    said: list[str] = []
    session = LinkSession(_Silent(), Mirror(root, "n1"), said.append)
    with contextlib.suppress(FrameError, MirrorRefusedError, LinkLostError):
        session._take(case)
        session._hold()
    write_json(place / "said.json", [session.status.behind, session.status.agent_exit])
    names = {path.relative_to(root).parts[0] for path in root.rglob("*") if path.is_file()}
    assert names <= {"nodes", "attempts"}
    assert {path.name for path in place.iterdir()} == {"run", "said.json"}


def take_as_the_node(case: bytes, place: Path) -> None:
    log = place / LOG
    log.parent.mkdir(parents=True)
    log.write_bytes(b"one\ntwo\n")
    sources, window = Sources(place, "n1"), Window()
    sources.look()
    while sources.next(1 << 16) is not None:
        pass
    window.send(10, 0.0)
    try:
        for frame in FrameReader().feed(case):
            if frame.kind == "ack":
                window.acknowledge(frame.number("total"), 1.0)
            elif frame.kind == "have":
                sources.resume(frame.text("path"), frame.head)
            elif frame.kind == "hold":
                sources.hold(frame.number("level"))
            elif frame.kind == "ping":
                frame.time("t")
            assert sources.behind >= 0
            for _ in range(5):
                sources.next(1 << 16)
    except (FrameError, ValueError):
        return


def test_frames_of_nodes() -> None:
    read_all(take_as_the_controller, frames(*OF_NODE))


def test_frames_of_controllers() -> None:
    read_all(take_as_the_node, frames(*OF_CONTROLLER))
