"""The record that a rank overwrites every second."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torchdeck.contract.doctor.rank_heartbeat import (
    TEXT_LIMIT,
    RankHeartbeat,
    RankHeartbeatFile,
    read_rank_heartbeat,
)

BEAT = RankHeartbeat(
    17, 12.5, enqueued=1204, completed=1203, groups=2, activity="waiting", places=3, signal=43
)


def test_a_shorter_record_replaces_a_longer_one(tmp_path: Path) -> None:
    file = RankHeartbeatFile(tmp_path / "ranks/0/heartbeat")
    file.write(BEAT._replace(place="train.py:84 " + "x" * 200))
    file.write(BEAT)
    file.close()
    assert read_rank_heartbeat(tmp_path / "ranks/0/heartbeat") == BEAT


def test_what_is_no_heartbeat_is_none(tmp_path: Path) -> None:
    """Missing, a FIFO that a program put there, half a record."""
    assert read_rank_heartbeat(tmp_path / "none") is None
    os.mkfifo(tmp_path / "fifo")
    assert read_rank_heartbeat(tmp_path / "fifo") is None
    file = RankHeartbeatFile(tmp_path / "heartbeat")
    file.write(BEAT)
    file.close()
    (tmp_path / "half").write_bytes((tmp_path / "heartbeat").read_bytes()[:-9])
    assert read_rank_heartbeat(tmp_path / "half") is None


def test_a_rank_cannot_make_its_agent_read_what_is_no_heartbeat(tmp_path: Path) -> None:
    """Fields of another type, and numbers out of any range, with a correct checksum."""
    wrong: dict[str, Any] = {"pid": "1", "signal": 65, "enqueued": 1 << 80, "monotonic": -2.0}
    wrong |= {"place": "\ud800", "timeout": 10**400}
    for field, value in wrong.items():
        file = RankHeartbeatFile(tmp_path / "heartbeat")
        file.write(BEAT._replace(**{field: value}))
        file.close()
        assert read_rank_heartbeat(tmp_path / "heartbeat") is None, (field, value)
    file = RankHeartbeatFile(tmp_path / "long")
    file.write(BEAT._replace(place="y" * 2000))
    file.close()
    found = read_rank_heartbeat(tmp_path / "long")
    assert found is not None
    assert len(found.place) == TEXT_LIMIT
