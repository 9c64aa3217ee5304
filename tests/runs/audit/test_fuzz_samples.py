"""Hostile records of samples, through the audit that `runs show` makes of a recipe's run."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from support.values.audited_run import AuditedRun
from torchdeck.data.sample_log import _CHECKED_HEAD
from torchdeck.runs.audit.audit import audit_run
from torchdeck.runs.audit.result import table_lines, verdict_lines

HEADER = {
    "format": "torchdeck-samples",
    "v": 1,
    "size": 20,
    "rank": 1,
    "world_size": 2,
    "start": {"step": 0},
    "batch_plan": "",
    "width": 4,
}
COUNTS = st.sampled_from((0, 1, 3, 2**31, 2**32 - 1))
STEPS = st.integers(0, 9) | st.sampled_from((-1, 2**31, 2**62))


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """Records whose hashes fit, with counts and steps that may not."""
    content = b""
    for _ in range(draw(st.integers(0, 4))):
        ids = draw(st.lists(st.integers(0, 25), max_size=6))
        body = struct.pack(f"<{len(ids) + 1}I", len(ids), *ids)
        samples, parts = draw(st.one_of(st.just((len(ids), 1)), st.tuples(COUNTS, COUNTS)))
        numbers = (zlib.crc32(body), samples, parts, draw(STEPS), draw(COUNTS), draw(st.floats()))
        try:
            head = _CHECKED_HEAD.pack(*numbers)
        except struct.error:  # a number that the format cannot hold
            continue
        content += struct.pack("<I", zlib.crc32(head)) + head + body
    return content


def audit(case: bytes, place: Path) -> None:
    """The first byte says whether the header is a sound one."""
    run = AuditedRun(place)
    run.attempt(1, 1, 4)
    path = run.layout.attempt(1).rank(1).samples
    sound = path.read_bytes().split(b"\n")[0] + b"\n"
    path.write_bytes(sound + case[1:] if case[:1] == b"1" else case[1:])
    found = audit_run(run.layout, run.view())
    assert found is not None
    assert [*table_lines(found), *verdict_lines(found)]


def test_records_of_samples() -> None:
    headers = hostile.documents(HEADER).map(lambda text: b"0" + text + b"\n")
    sound = st.builds(lambda content: b"1" + content, records() | records().flatmap(hostile.damaged))
    read_all(audit, sound | st.builds(bytes.__add__, headers, records()))
