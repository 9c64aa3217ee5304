"""The file of logged images, texts, histograms and tables: what is written is read, anything else refused."""

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.contract.metrics import media_format
from torchdeck.contract.metrics.media_format import (
    BODY_LIMIT,
    FRAME_BYTES,
    KINDS,
    HistogramBody,
    MediaError,
    MediaHead,
    TableBody,
    check_body,
    decode_file_header,
    decode_frame,
    decode_record,
    encode_file_header,
    encode_record,
    histogram_of,
    png_size,
    table_of,
    text_of,
)
from torchdeck.telemetry.media.png import encode_png

heads = st.builds(
    MediaHead,
    st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable()),
    st.sampled_from(KINDS),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(0, 1e10),
    st.text(max_size=20).filter(lambda text: text.isprintable()),
)


@given(heads, st.binary(max_size=200), st.integers(0, 10**9))
def test_a_record_is_read_as_it_was_written(head: MediaHead, body: bytes, at: int) -> None:
    whole = encode_record(head, body)
    lengths = decode_frame(whole)
    assert lengths is not None
    assert FRAME_BYTES + sum(lengths) == len(whole)
    record = decode_record(whole, at)
    assert (record.head, record.end) == (head, at + len(whole))
    assert whole[record.body_at - at :] == body
    check_body(record, body)
    assert decode_frame(whole[: FRAME_BYTES - 1]) is None


@given(heads, st.binary(max_size=60), st.data())
def test_a_changed_byte_is_noticed(head: MediaHead, body: bytes, data: st.DataObject) -> None:
    """By the checksum of the head, or that of the body."""
    whole = bytearray(encode_record(head, body))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(MediaError):
        read_whole(bytes(whole))


def read_whole(content: bytes) -> None:
    assert decode_frame(content) is not None
    record = decode_record(content, 0)
    check_body(record, content[record.body_at :])


@given(st.binary(max_size=300))
def test_foreign_bytes_raise_nothing_else(content: bytes) -> None:
    for read in (decode_file_header, decode_frame, png_size, text_of, histogram_of, table_of):
        with suppress(MediaError):
            read(content)
    if len(content) >= FRAME_BYTES:
        with suppress(MediaError):
            decode_record(content, 0)


def test_the_first_line_tells_the_version() -> None:
    line = encode_file_header(1.5)
    assert decode_file_header(line + b"more") == len(line)
    assert decode_file_header(line[:-1]) is None
    with pytest.raises(MediaError, match=r"newer Torchdeck \(format 2\)"):
        decode_file_header(line.replace(b'media": 1', b'media": 2'))
    for wrong in (b"{}\n", b"[1]\n", b'{"torchdeck_media": true}\n', b"x" * 5000):
        with pytest.raises(MediaError, match="is no file of logged"):
            decode_file_header(wrong)


def test_what_is_too_large_is_not_written() -> None:
    with pytest.raises(MediaError, match="at most 4,194,304 are logged"):
        encode_record(MediaHead("a", "text", 1, 0.0), bytes(BODY_LIMIT + 1))


@pytest.mark.parametrize(
    "head",
    [
        {"name": ""},
        {"name": "n" * 257},
        {"kind": "video"},
        {"step": 1.5},
        {"step": True},
        {"time": 1e300},
        {"time": "now"},
        {"caption": None},
        {"more": 1},
    ],
)
def test_a_head_that_is_none_is_refused(head: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With a right checksum, as a program of another sort would write it."""
    fields = {"name": "a", "kind": "text", "step": 1, "time": 0.0, "caption": "", **head}
    monkeypatch.setattr(media_format, "MediaHead", type("Head", (), {"_asdict": lambda _: fields}))
    whole = encode_record(media_format.MediaHead(), b"")  # type: ignore[call-arg]
    monkeypatch.undo()
    with pytest.raises(MediaError, match="a record in it"):
        decode_record(whole, 0)


def test_bodies() -> None:
    assert png_size(encode_png(3, 2, 3, bytes(18))) == (3, 2)
    assert text_of("a ü".encode()) == "a ü"
    histogram = {"edges": [0, 0.5, 1], "counts": [2, 3], "left_out": 1}
    assert histogram_of(json.dumps(histogram).encode()) == HistogramBody((0.0, 0.5, 1.0), (2, 3), 1)
    table = {"columns": ["a", "b"], "rows": [[1, "x"], [None, True]]}
    assert table_of(json.dumps(table).encode()) == TableBody(("a", "b"), ((1, "x"), (None, True)))


@pytest.mark.parametrize(
    "change",
    [
        {"edges": [0, 1]},
        {"edges": [1, 0.5, 2]},
        {"edges": [0, math.inf, 1]},
        {"edges": [0, "x", 1]},
        {"counts": [1, -1]},
        {"counts": [1, 1.5]},
        {"counts": []},
        {"counts": [1] * 513, "edges": [*range(514)]},
        {"left_out": None},
    ],
)
def test_a_histogram_that_is_none_is_refused(change: dict[str, Any]) -> None:
    histogram = {"edges": [0, 0.5, 1], "counts": [2, 3], "left_out": 1}
    with pytest.raises(MediaError, match="histogram"):
        histogram_of(json.dumps({**histogram, **change}).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"columns": []},
        {"columns": [1, 2]},
        {"columns": ["c"] * 51, "rows": []},
        {"rows": [[1]]},
        {"rows": [[1, [2]]]},
        {"rows": [[1, "x" * 1001]]},
        {"rows": [[1, 2]] * 501},
        {"rows": {}},
    ],
)
def test_a_table_that_is_none_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(MediaError, match="table"):
        table_of(json.dumps({"columns": ["a", "b"], "rows": [[1, 2]], **change}).encode())


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (encode_png(5000, 1, 1, bytes(5000)), "5000 × 1 pixels"),
        (encode_png(1, 1, 1, b"x")[:20], "no PNG"),
        (b"GIF89a" + bytes(40), "no PNG"),
        (encode_png(1, 1, 1, b"x").replace(b"IHDR", b"IDHR"), "no PNG"),
    ],
)
def test_a_picture_that_is_none_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(MediaError, match=said):
        png_size(body)


def test_a_text_that_is_none_is_refused() -> None:
    with pytest.raises(MediaError, match="no UTF-8"):
        text_of(b"\xff")
    with pytest.raises(MediaError, match="at most 65,536"):
        text_of(b"x" * 65_537)
