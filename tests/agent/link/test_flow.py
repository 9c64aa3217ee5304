"""How much is under way on links of any speed: simulated, with clocks of their own."""

from __future__ import annotations

import pytest

from torchdeck.agent.link.flow_control import LEAST, MOST, Window

OVERHEAD = 1e-4


def simulate(window: Window, rate: float, delay: float, seconds: float) -> tuple[float, float]:
    """A link of `rate` bytes/s and `delay` s each way that always has something to send.

    Returns:
        Bytes a second over the second half, and the longest time that a piece took in it.
    """
    now = free = 0.0
    under_way: list[tuple[float, int, float]] = []  # acknowledged at, total, sent at
    delivered, longest = 0, 0.0
    while now < seconds:
        if window.room:
            count = window.piece
            window.send(count, now)
            free = max(free, now) + count / rate
            under_way.append((free + 2 * delay, window.sent, now))
            now += OVERHEAD
            continue
        window.wants()
        now, total, sent = under_way.pop(0)
        if now > seconds / 2:
            delivered += total - window.acknowledged
            longest = max(longest, now - sent)
        window.acknowledge(total, now)
    return delivered / (seconds / 2), longest


@pytest.mark.parametrize(
    ("rate", "delay"), [(125_000, 0.2), (125_000, 0.0), (12_500_000, 0.05), (1e9, 0.0001)]
)
def test_a_link_is_kept_busy_and_not_stuffed(rate: float, delay: float) -> None:
    """Nine tenths of what it carries, and no byte waits longer than a second beyond its way."""
    carried, longest = simulate(Window(), rate, delay, 60.0)
    assert carried > 0.9 * min(rate, MOST / 4 / OVERHEAD / 20)
    assert longest < 2 * delay + 1.0


def test_a_link_that_slows_down_is_given_less() -> None:
    """From a local network to a phone's."""
    window = Window()
    simulate(window, 1e8, 0.001, 10.0)
    fast = window.size
    simulate(window, 100_000, 0.001, 300.0)
    assert LEAST <= window.size < fast / 8


def test_what_was_not_sent_cannot_be_acknowledged() -> None:
    """Nor can an acknowledgement be taken back."""
    window = Window()
    window.send(100, 0.0)
    with pytest.raises(ValueError, match="101"):
        window.acknowledge(101, 1.0)
    window.acknowledge(100, 1.0)
    with pytest.raises(ValueError, match="99"):
        window.acknowledge(99, 1.0)
