"""The record that a rank overwrites every second."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torchdeck.contract.doctor.rank_heartbeat import (
    MOST_GROUPS,
    TEXT_LIMIT,
    GroupCounts,
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


def test_groups_fit_into_the_record_or_are_left_out(tmp_path: Path) -> None:
    """As are those that are damaged; the other fields are read all the same."""
    path, groups = tmp_path / "heartbeat", (GroupCounts("0", 1204, 1203), GroupCounts("7", 12, 12))
    assert written(path, BEAT._replace(by_group=groups)) == BEAT._replace(by_group=groups)
    damaged: Any = (groups[0], ("1", 2), ("x" * 65, 1, 1), ("2", -1, 0), ("3", True, 0), groups[1])
    assert written(path, BEAT._replace(by_group=damaged)) == BEAT._replace(by_group=groups)
    most = tuple(GroupCounts(f"{number:064}", 1 << 60, 1 << 60) for number in range(MOST_GROUPS))
    assert written(path, BEAT._replace(by_group=most)) == BEAT._replace(by_group=most)
    long = BEAT._replace(place="\x01" * TEXT_LIMIT, by_group=most)
    assert written(path, long) == long._replace(by_group=())


def written(path: Path, beat: RankHeartbeat) -> RankHeartbeat | None:
    path.unlink(missing_ok=True)
    file = RankHeartbeatFile(path)
    file.write(beat)
    file.close()
    return read_rank_heartbeat(path)
