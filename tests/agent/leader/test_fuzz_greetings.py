"""Whatever strangers say before they have proved anything, to the leader and as a false one to a node."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from hypothesis import strategies as st

from support.fuzz.fuzzing import read_all
from torchdeck.agent.leader.channel import FOLLOWER, GREETING_LIMIT, LEADER, Channel, ChannelError

NONCE = "0123456789abcdef"
ODD = st.sampled_from(["\ud800", "\x1b]52;c;x\x07", "beta", "", "é", "a" * 300, "lead", NONCE])
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | ODD | st.text(max_size=20)
ANYTHING = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD, inner, max_size=3), max_leaves=8
)
HELLO = {"v": 1, "node": "beta", "nonce": NONCE}


@st.composite
def greetings(draw: st.DrawFn) -> bytes:
    """Something like a hello or a proof, with any of its fields wrong, or a line that is nothing."""
    kind = draw(st.sampled_from(["hello", "proof", "object", "deep", "digits", "bytes", "long"]))
    if kind in ("hello", "proof"):
        value: object = HELLO if kind == "hello" else {"proof": "00" * 32}
        wrong = draw(
            st.dictionaries(st.sampled_from(["v", "node", "nonce", "proof", "x"]), ANYTHING, max_size=2)
        )
        value = {**HELLO, **wrong} if kind == "hello" else {"proof": "00" * 32, **wrong}
    elif kind == "object":
        value = draw(ANYTHING)
    else:
        depth = draw(st.integers(1, 2 * GREETING_LIMIT))
        prepare_phase = draw(st.sampled_from([b"[", b'{"v":', b'[{"v":']))
        return {
            "deep": prepare_phase * (depth // len(prepare_phase)),
            "digits": b'{"v":' + b"9" * depth + b"}",
            "bytes": draw(st.binary(max_size=200)),
            "long": b" " * depth + b"{}",
        }[kind]
    return json.dumps(value).encode()


def take(case: bytes, _: Path) -> None:
    """The first byte says who hears it and in how many pieces; the connection may end, and nothing else."""
    first, content = case[0], case[1:]
    role = LEADER if first % 2 else FOLLOWER
    near, far = socket.socketpair()
    channel = Channel(near, role, b"the token", "run", "beta" if role == FOLLOWER else "")
    far.settimeout(0)
    size = len(content) // (first // 4 + 1) + 1
    said = ""
    try:
        for at in range(0, len(content), size):
            far.send(content[at : at + size])
            assert channel.receive() == []
            channel.flush()
            assert not channel.ready
        far.close()
        channel.receive()
    except ChannelError as error:
        said = str(error)
    finally:
        far.close()
        channel.close()
    assert said.isprintable()


def test_no_line_of_a_stranger_ends_anything_but_its_connection() -> None:
    """In pieces, whole or cut off."""
    lines = st.lists(greetings(), max_size=4).map(b"\n".join)
    whole = st.builds(bytes.__add__, lines, st.sampled_from([b"", b"\n"]))
    read_all(take, st.builds(bytes.__add__, st.binary(min_size=1, max_size=1), whole))
