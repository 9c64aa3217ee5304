"""Hostile files of logged media, such as a node sends: they are read within bounds, or a MediaError."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from support.fuzz.refusals import refused
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.media_format import BODY_LIMIT, HEAD_LIMIT, MediaError
from torchdeck.metrics.logged_media import MediaReader, read_media
from torchdeck.telemetry.media.png import encode_png

HEADER = {"torchdeck_media": 1, "pid": 3, "created": 1e9}
HEAD: dict[str, Any] = {"name": "samples", "step": 1, "time": 1e9, "caption": "at the end"}
HISTOGRAM = {"edges": [0, 0.5, 1], "counts": [2, 3], "left_out": 1}
TABLE = {"columns": ["a", "b"], "rows": [[1, "x"], [None, True], [0.5, "y"]]}
IMAGE = encode_png(3, 2, 3, bytes(18))
SIZES = st.sampled_from((0, 1, HEAD_LIMIT, HEAD_LIMIT + 1, BODY_LIMIT, BODY_LIMIT + 1, 2**32 - 1))
MOSTLY = st.sampled_from((True, True, True, False))
BODIES = {
    "image": hostile.damaged(IMAGE) | hostile.damaged(IMAGE[:40]),
    "text": st.text().map(lambda text: text.encode("utf-8", "replace")) | st.binary(max_size=70),
    "histogram": hostile.documents(HISTOGRAM),
    "table": hostile.documents(TABLE),
}


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """One with right checksums, unless its lengths are others."""
    kind = draw(st.sampled_from(sorted(BODIES)))
    fields = {**HEAD, "kind": kind, "step": draw(st.integers(0, 9))}
    head = json.dumps(fields).encode() if draw(MOSTLY) else draw(hostile.documents(fields))
    body = draw(BODIES[kind])
    lengths = [len(head), len(body)]
    if not draw(MOSTLY):
        lengths[draw(st.integers(0, 1))] = draw(SIZES)
    frame = struct.pack("<II", *lengths)
    return frame + struct.pack("<II", zlib.crc32(frame + head), zlib.crc32(body)) + head + body


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A header and records; some of it is damaged."""
    right = json.dumps(HEADER).encode()
    header = right if draw(MOSTLY) else draw(hostile.documents(HEADER))
    content = header + b"\n" + b"".join(draw(st.lists(records(), min_size=1, max_size=4)))
    return content if draw(MOSTLY) else draw(hostile.damaged(content))


def read_file(case: bytes, place: Path) -> None:
    """What the page of a run does with two files, which grow meanwhile."""
    layout = RunLayout(place)
    whole, grown = (layout.attempt(1).rank(rank).media / "1.media" for rank in (0, 1))
    for path, content in ((whole, case), (grown, case[: len(case) // 2])):
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    reader = MediaReader(layout)
    reader.refresh()
    grown.write_bytes(case)
    listing = reader.refresh()
    assert reader.refresh() is listing
    for name, _rank in listing:
        for logged in listing[name, 0]:
            refused(lambda logged=logged: read_media(logged), MediaError)  # type: ignore[misc]
    assert all(reader.problems)
    assert {key for key in listing if key[1] == 0} == {(name, 0) for name, _ in listing}


def test_files() -> None:
    read_all(read_file, files())
