"""Speed of a disk: bounded, and without a trace."""

import os
from pathlib import Path

import pytest

from torchdeck.agent.probe import disk_speed
from torchdeck.agent.probe.disk_speed import FIRST_BLOCK, MOST_BYTES


def test_a_folder_is_measured_and_left_as_it_was(tmp_path: Path) -> None:
    """One that is not there yet stands for the nearest around it."""
    found = disk_speed.disk_speed({"folder": str(tmp_path / "made" / "later")})
    assert FIRST_BLOCK <= found["bytes"] <= MOST_BYTES
    assert found["write"] > 0
    assert found["read"] > 0
    assert list(tmp_path.iterdir()) == []


def test_time_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes the time of the whole measurement for a block gets one block."""
    monkeypatch.setattr(disk_speed, "SECONDS", 0.0)
    monkeypatch.setattr(disk_speed, "_read", lambda _file, most: (most, 1.0))
    assert disk_speed.disk_speed({"folder": str(tmp_path)})["bytes"] == 0
    monkeypatch.setattr(disk_speed, "SECONDS", 1e-9)
    assert disk_speed.disk_speed({"folder": str(tmp_path)})["bytes"] in (0, FIRST_BLOCK)


def test_little_space_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_speed, "SHARE_OF_FREE", 0.0)
    with pytest.raises(OSError, match="too little space"):
        disk_speed.disk_speed({"folder": str(tmp_path)})


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux")
def test_a_folder_that_cannot_be_written_is_an_error() -> None:
    """Whoever asks gets the reason."""
    with pytest.raises(OSError, match=os.strerror(13) + "|" + os.strerror(2) + "|space|Operation"):
        disk_speed.disk_speed({"folder": "/proc/self"})
