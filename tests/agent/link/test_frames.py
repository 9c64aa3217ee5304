"""Frames arrive whole, however the stream is cut; what is none is refused."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.contract.frames import BODY_LIMIT, Frame, FrameError, FrameReader, encode

NUMBERS = st.integers(1 - 2**64, 2**64 - 1)
FRAMES = st.lists(
    st.tuples(st.text(max_size=8), st.dictionaries(st.text(min_size=1), NUMBERS | st.text()), st.binary()),
    max_size=8,
)


@given(FRAMES, st.lists(st.integers(min_value=1, max_value=40), min_size=1))
def test_frames_come_out_as_they_went_in(
    sent: list[tuple[str, dict[str, object], bytes]], cuts: list[int]
) -> None:
    """At any sizes of what is read at once."""
    stream = b"".join(encode(kind, body, **{**fields, "k": kind}) for kind, fields, body in sent)
    reader, found, at = FrameReader(), [], 0
    while at < len(stream):
        size = cuts[at % len(cuts)]
        found += list(reader.feed(stream[at : at + size]))
        at += size
    assert found == [Frame({**fields, "k": kind}, body) for kind, fields, body in sent]


@pytest.mark.parametrize(
    "stream",
    [
        struct.pack("!II", 1 << 20, 0),
        struct.pack("!II", 2, BODY_LIMIT + 1),
        struct.pack("!II", 3, 0) + b"{]}",
        struct.pack("!II", 2, 0) + b"[]",
        b"Welcome to this machine\n",
    ],
)
def test_what_is_no_frame_is_refused(stream: bytes) -> None:
    """Too long, no JSON, no object, or someone's words."""
    with pytest.raises(FrameError):
        list(FrameReader().feed(stream))


@pytest.mark.parametrize("value", [None, -1, True, "1", 1.5, [1]])
def test_a_number_is_checked(value: object) -> None:
    """What a head holds is the other end's."""
    with pytest.raises(FrameError, match="'at'"):
        Frame({"k": "put", "at": value}).number("at")


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), "0", False])
def test_a_time_is_checked(value: object) -> None:
    """Neither NaN nor infinity are times, which JSON as Python reads it may hold."""
    with pytest.raises(FrameError, match="'t'"):
        Frame({"k": "ping", "t": value}).time("t")


def test_a_frame_that_the_other_end_would_refuse_is_not_sent() -> None:
    """The error comes where it is made."""
    with pytest.raises(FrameError, match="too long"):
        encode("put", bytes(BODY_LIMIT + 1))
    assert json.loads(encode("put", bytes(4))[8:-4]) == {"k": "put"}
