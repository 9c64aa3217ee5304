"""When checkpoints are due: by steps, by epochs, and by what they cost."""

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.data.order import Position
from torchdeck.distributed.rank_settings import CheckpointSettings
from torchdeck.distributed.trainer.save_schedule import SaveInterval, SaveSchedule, young_interval

SECONDS = st.floats(1e-3, 1e4)


@dataclass
class Clock:
    """Stands still until it is set."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def _cadence(*, leads: bool = True, clock: Clock | None = None, **options: object) -> SaveSchedule:
    settings = CheckpointSettings(directory="somewhere", **options)  # type: ignore[arg-type]
    return SaveSchedule(settings, leads=leads, clock=clock or Clock())


def test_every_so_many_steps() -> None:
    """After steps 3, 6, …, wherever in an epoch they are."""
    cadence = _cadence(every=3)
    foreseen = [step for step in range(1, 10) if cadence.foreseen(Position(0, step, step), 0)]
    assert foreseen == [3, 6, 9]


def test_every_so_many_epochs() -> None:
    """After the last step of every second epoch, and of no other step."""
    cadence = _cadence(every_epochs=2)
    after = [Position(0, 4, 1), Position(1, 0, 2), Position(1, 4, 3), Position(2, 0, 4), Position(2, 4, 5)]
    epochs = [0, 0, 1, 1, 2]
    assert [cadence.foreseen(*step) for step in zip(after, epochs, strict=True)] == [
        False,
        False,
        False,
        True,
        False,
    ]


def test_neither_is_only_at_the_end() -> None:
    """Nothing is foreseen and nothing is wished."""
    cadence = _cadence()
    assert not any(cadence.wished(step) or cadence.foreseen(Position(1, 0, step), 0) for step in range(1, 50))


def test_auto_measures_early_then_follows_the_rule() -> None:
    """Rank 0 requests one after 10 steps, then when the interval is over; other ranks never do."""
    clock = Clock()
    cadence = _cadence(auto=True, mtbf=1.0, max_stall=0.5, clock=clock)
    other = _cadence(auto=True, leads=False, clock=clock)
    assert [cadence.wished(step) for step in range(1, 11)] == [False] * 9 + [True]
    clock.now = 100.0
    interval = cadence.saved(2.0)
    assert interval == pytest.approx(math.sqrt(2 * 2.0 * 3600.0)) == pytest.approx(120.0)
    clock.now = 100.0 + 119.9
    assert not cadence.wished(11)
    clock.now = 100.0 + 120.1
    assert cadence.wished(12)
    assert not any(other.wished(step) for step in range(1, 40))
    assert other.saved(2.0) is None


def test_young_by_hand() -> None:
    """5 s a save and a failure a day: √(2 · 5 · 86,400) ≈ 930 s."""
    assert young_interval(5.0, 86_400.0) == pytest.approx(929.516, abs=1e-3)


@given(stall=SECONDS, mtbf=st.floats(60.0, 1e7))
def test_young_loses_the_least_to_first_order(stall: float, mtbf: float) -> None:
    """stall/T for saving plus T/2 of every mtbf for what is lost is least at Young's T."""

    def lost(interval: float) -> float:
        return stall / interval + interval / (2 * mtbf)

    best = young_interval(stall, mtbf)
    assert lost(best) <= min(lost(best * factor) for factor in (0.5, 0.9, 1.1, 2.0))


@given(
    stalls=st.lists(SECONDS, min_size=1, max_size=8),
    writes=st.lists(SECONDS, max_size=8),
    mtbf=st.floats(60.0, 1e7),
    max_stall=st.floats(0.001, 0.5),
)
def test_saving_never_takes_more_than_it_may(
    stalls: list[float], writes: list[float], mtbf: float, max_stall: float
) -> None:
    """The smoothed stall is at most max_stall of stall and interval together, and a write fits in between."""
    interval = SaveInterval(mtbf=mtbf, max_stall=max_stall)
    for stall in stalls:
        interval.stalled(stall)
    for seconds in writes:
        interval.written(seconds)
    chosen = interval.seconds
    assert chosen is not None
    least = min(stalls)
    assert least / (least + chosen) <= max_stall * (1 + 1e-9)
    assert chosen >= min(writes, default=0.0)


def test_measurements_are_smoothed() -> None:
    """An outlier moves the interval, and fades by half with every save after it."""
    interval = SaveInterval(mtbf=3600.0, max_stall=0.5)
    assert [interval.stalled(stall) ** 2 / 7200.0 for stall in (1.0, 9.0, 1.0, 1.0)] == pytest.approx(
        [1.0, 5.0, 3.0, 2.0]
    )
