"""Hostile files of ranks for the doctor: reports of arrivals, heartbeats, and orders of profiles."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from torchdeck.contract.doctor.arrivals import MOST_GROUPS, is_consistent, read_arrivals
from torchdeck.contract.doctor.rank_heartbeat import RankHeartbeat, read_rank_heartbeat
from torchdeck.contract.doctor.rank_profile import parse_order, wanted_from

GROUP = {"group": "0", "sequences": [1, 2], "times": [2, 3], "kinds": [7, 7], "spent": []}
ARRIVALS = {"v": 1, "begin": 5, "groups": [GROUP, {**GROUP, "group": "1"}]}
BEAT = RankHeartbeat(17, 12.5, 1204, 1203, 2, "waiting", "train.py:84 save", 3, computes=True, signal=43)


def read_report(case: bytes, place: Path) -> None:
    path = place / "arrivals.json"
    path.write_bytes(case)
    found = read_arrivals(path)
    if found is not None:
        assert is_consistent(found)
        assert len(found.groups) <= MOST_GROUPS
        json.dumps(found).encode()


def read_heartbeat(case: bytes, place: Path) -> None:
    """As it is, and with the checksum that belongs to it."""
    path = place / "heartbeat"
    for content in (case, b"%08x %s" % (zlib.crc32(case.rstrip()), case)):
        path.write_bytes(content)
        found = read_rank_heartbeat(path)
        if found is not None:
            json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
            assert found.pid > 0


def read_order(case: bytes, _: Path) -> None:
    parse_order(case.decode("utf-8", "replace"))
    try:
        value = json.loads(case)
    except (ValueError, RecursionError):
        return
    wanted_from(value)


def test_reports_of_arrivals() -> None:
    read_all(read_report, hostile.documents(ARRIVALS))


def test_heartbeats() -> None:
    read_all(read_heartbeat, hostile.documents(BEAT._asdict()) | st.binary(max_size=300))


def test_orders_of_profiles() -> None:
    orders = [b"/x/1-profile-ab\n1.5", b"/x/1-profile-ab\nnan", b"\n" * 9]
    wanted = hostile.documents({"ranks": [0, 1], "seconds": 1.5})
    read_all(read_order, wanted | st.sampled_from(orders).flatmap(hostile.damaged))
