"""Text lines on how much each rank reads and how even that is."""

from __future__ import annotations

from torchdeck.plan.preview.data import DataPreview
from torchdeck.quantities import rate

_WHOLE = 100
"""Number of epochs from which fractions are not shown."""
EVEN = 0.05
"""Deviation from the mean, in percent, that one decimal does not show."""


def source_line(data: DataPreview) -> str:
    """Return `seeded order over 59,117 samples: 400 steps, 0.216 epochs of 1,848 steps`."""
    return (
        f"{data.source} over {data.size:,} samples: {counted(data.steps, 'step')}, "
        f"{passes(data.epochs)} of {counted(data.steps_per_epoch, 'step')}"
    )


def evenness(data: DataPreview) -> str:
    """Return `fullest rank ÷ mean 1.004 in tokens · padding 12 %`."""
    text = f"fullest rank ÷ mean: {data.imbalance:.3f} in {data.unit}"
    return text if data.padding is None else f"{text} · padding {data.padding * 100:.1f} %"


def policy_lines(data: DataPreview) -> list[str]:
    """Return the same for each balance: waiting time within steps, and the difference between ranks at the
    end.
    """
    return [
        f"balance {policy.name + ':':<10} {policy.slowest:.3f} a step, {policy.imbalance:.3f} "
        + ("in all" if policy.steps == data.steps else f"in the first {counted(policy.steps, 'step')}")
        + ("   (chosen)" if policy.chosen else "")
        for policy in data.policies
    ]


def amount(data: DataPreview, rank: int) -> str:
    """Return `819.2k tokens, 6,400 samples`."""
    text = f"{rate(float(data.load[rank]))} {data.unit}"
    return text if data.tokens is None else f"{text}, {counted(int(data.samples[rank]), 'sample')}"


def deviation(data: DataPreview, rank: int) -> str:
    """Return the deviation from the mean: `+1.2 %`, or `even`."""
    percent = apart(data, rank)
    return "even" if abs(percent) < EVEN else f"{percent:+.1f} %"


def apart(data: DataPreview, rank: int) -> float:
    """Return how far a rank's load is from the mean, in percent of the mean."""
    load, mean = float(data.load[rank]), float(data.load.mean())
    return (load / mean - 1) * 100 if mean else 0.0


def passes(epochs: float) -> str:
    """Return `0.216 epochs`."""
    text = f"{epochs:,.0f}" if epochs >= _WHOLE else f"{epochs:.3g}"
    return f"{text} epoch{'' if text == '1' else 's'}"


def counted(number: int, thing: str) -> str:
    """Return `1 step`, `1,848 steps`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
