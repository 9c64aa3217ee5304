"""Headers of metric segments: round trip, torn ones, foreign ones, newer ones."""

import contextlib
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.contract.metrics.segment_format import (
    HEADER_LIMIT,
    NewerSegmentError,
    SegmentError,
    decode_header,
    encode_header,
)

KEYS = st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=8, unique=True)


@settings(deadline=None)
@given(KEYS, st.sampled_from(["log", "system"]), st.floats(0, 2e9))
def test_header_round_trip(keys: list[str], source: str, created: float) -> None:
    """A header gives back its names, whatever they are, and is a multiple of 64 bytes long."""
    header = decode_header(encode_header(keys, source, created=created) + b"rows")
    assert header is not None
    assert (list(header.keys), header.source, header.created) == (keys, source, created)
    assert header.length % 64 == 0
    assert header.row_bytes == 8 * (2 + len(keys))


@settings(deadline=None)
@given(KEYS, st.data())
def test_torn_header_is_not_whole_yet(keys: list[str], data: st.DataObject) -> None:
    """A header cut anywhere before its end is none yet, and never an error: more may come."""
    encoded = encode_header(keys, "log", created=1.0)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    assert decode_header(encoded[:cut]) is None


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_waited_for(start: bytes) -> None:
    """Bytes of any kind give a header, a wait or a SegmentError, nothing else."""
    with contextlib.suppress(SegmentError):
        header = decode_header(start)
        assert header is None or header.keys


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"torchdeck_metrics": 1}, "no list of names"),
        ({"torchdeck_metrics": 1, "keys": []}, "no list of names"),
        ({"torchdeck_metrics": 1, "keys": ["a", "a"]}, "twice"),
        ({"torchdeck_metrics": 1, "keys": [3]}, "no list of names"),
        ({"torchdeck_metrics": 1, "keys": ["a"], "source": 1, "pid": 1, "created": 1}, "lacks"),
        (
            {"torchdeck_metrics": 1, "keys": ["a"], "source": "log", "pid": 1, "created": 10**400},
            "out of range",
        ),
        ({"torchdeck_metrics": 1, "keys": ["a"], "source": "log", "pid": 1, "created": 1e16}, "no time"),
        (
            {"torchdeck_metrics": 1, "keys": ["a"], "source": "log", "pid": 1, "created": math.nan},
            "NaN is not a number",
        ),
        ({"torchdeck_metrics": "1"}, "no number"),
        ([1], "no number"),
    ],
)
def test_damaged_header_is_refused(fields: object, said: str) -> None:
    """A header that is JSON and no description of rows says what is wrong with it."""
    with pytest.raises(SegmentError, match=said):
        decode_header(json.dumps(fields).encode() + b"\n")


def test_newer_version_says_to_update() -> None:
    """A segment of a newer format is refused with what to do."""
    with pytest.raises(NewerSegmentError, match="update Torchdeck"):
        decode_header(b'{"torchdeck_metrics": 2, "anything": true}\n')


def test_endless_first_line_is_foreign() -> None:
    """A file without a line end in the first 4 MiB is no segment, even if it begins like one."""
    with pytest.raises(SegmentError):
        decode_header(b'{"torchdeck_metrics": 1' + b" " * HEADER_LIMIT)


def test_deeply_nested_first_line_is_foreign() -> None:
    """JSON deeper than Python's parser goes is no segment, and no crash of the reader."""
    with pytest.raises(SegmentError, match="not JSON"):
        decode_header(b"[" * 60_000 + b"\n")
