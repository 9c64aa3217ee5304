"""When a rank looks for the stop file. What ranks agree on is tested with real trainers."""

from pathlib import Path

import pytest

from torchdeck.trainers.inside.stop_agreement import LOOK_INTERVAL, StopAgreement


class Clock:
    """A monotonic clock that moves when it is told to, and the looks for the file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.looks = 0
        exists = Path.exists

        def look(path: Path) -> bool:
            self.looks += 1
            return exists(path)

        monkeypatch.setattr("torchdeck.trainers.inside.stop_agreement.time.monotonic", lambda: self.now)
        monkeypatch.setattr(Path, "exists", look)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_short_steps_share_a_look_for_the_stop_file(clock: Clock, tmp_path: Path) -> None:
    """A look at a network drive may take longer than a step."""
    stop = StopAgreement(tmp_path / "stop", "t")
    for step in range(100):
        assert not stop.reached(step)
        clock.now += LOOK_INTERVAL / 4
    assert clock.looks == 25


def test_long_steps_end_with_a_look_each(clock: Clock, tmp_path: Path) -> None:
    file = tmp_path / "stop"
    stop = StopAgreement(file, "t")
    for step in range(10):
        assert not stop.reached(step)
        clock.now += 1.01 * LOOK_INTERVAL
    file.touch()
    assert stop.reached(10)
    assert clock.looks == 11


def test_a_stop_is_noticed_within_the_interval_and_not_forgotten(clock: Clock, tmp_path: Path) -> None:
    file = tmp_path / "stop"
    stop = StopAgreement(file, "t")
    assert not stop.reached(1)
    file.touch()
    clock.now += 0.51 * LOOK_INTERVAL
    assert not stop.reached(2)
    clock.now += 0.51 * LOOK_INTERVAL
    assert stop.reached(3)
    file.unlink()
    assert stop.reached(4)


def test_without_a_stop_file_nothing_is_looked_for(clock: Clock) -> None:
    assert not StopAgreement(None, "t").reached(1)
    assert clock.looks == 0
