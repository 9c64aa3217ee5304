"""Amount of data each rank reads, and its balance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from torchdeck.config.training import Training
from torchdeck.contract.plan.prediction import PredictedData
from torchdeck.data.batch_plan import BALANCES, BatchPlan
from torchdeck.plan.planned_counts import PlannedCounts
from torchdeck.quantities import counted, rate


class Load:
    """Load of a value that counts both, in arrays of the same shape."""

    samples: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.float64] | None

    @property
    def load(self) -> npt.NDArray[np.float64]:
        """Tokens if known, else samples."""
        return self.samples.astype(np.float64) if self.tokens is None else self.tokens

    @property
    def unit(self) -> str:
        """Unit of `load`."""
        return "samples" if self.tokens is None else "tokens"


Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Policy:
    """Balance of the ranks under one setting of training.balance."""

    name: str
    imbalance: float
    """Largest token count of a rank ÷ mean, over `steps` steps."""
    slowest: float
    """Mean over steps of the largest token count ÷ mean within the step: the cost of waiting for the fullest
    rank.
    """
    chosen: bool
    steps: int
    """Number of first steps evaluated; not all of a long run."""


@dataclass(frozen=True, eq=False)
class DataPreview(Load):
    """Samples and tokens of every rank over the whole run."""

    source: str
    """`seeded order` or `batch plan`."""
    size: int
    """Samples of the data set."""
    steps_per_epoch: int
    steps: int
    samples: Counts
    """Shape (world size,)."""
    tokens: npt.NDArray[np.float64] | None
    """Shape (world size,); None if samples have no known length."""
    padding: float | None = None
    """Share of the model's computation that is padding; None if nothing is padded or known."""
    policies: tuple[Policy, ...] = ()
    """Policies of a batch plan."""

    @property
    def imbalance(self) -> float:
        """Load of the fullest rank ÷ mean; 1 is perfectly even."""
        mean = float(self.load.mean())
        return float(self.load.max()) / mean if mean else 1.0

    @property
    def epochs(self) -> float:
        """Number of passes over the data."""
        return self.steps / self.steps_per_epoch


def make_data(predicted: PredictedData, training: Training, plan: BatchPlan | None) -> DataPreview:
    """Return `predicted` with a number for each rank.

    Args:
        predicted: prediction for all ranks.
        training: says how the batch plan, if there is one, is distributed.
        plan: the batch plan.
    """
    counts = np.array([entry.last - entry.first + 1 for entry in predicted.ranks], dtype=np.int64)
    samples = np.array([entry.samples for entry in predicted.ranks], dtype=np.int64)
    tokens = [entry.tokens for entry in predicted.ranks]
    known = all(count is not None for count in tokens)
    return DataPreview(
        source=predicted.source,
        size=predicted.size,
        steps_per_epoch=predicted.steps_per_epoch,
        steps=predicted.steps,
        samples=np.repeat(samples, counts),
        tokens=np.repeat(np.array(tokens, dtype=np.float64), counts) if known else None,
        padding=None if plan is None else padding_share(plan),
        policies=() if plan is None else _policies(plan, training, int(counts.sum()), predicted.steps),
    )


def padding_share(plan: BatchPlan) -> float:
    """Return padding ÷ all computed tokens, over all epochs of `plan`."""
    epochs = [plan.epoch_columns(epoch) for epoch in range(plan.epochs)]
    padded = sum(int(columns.padded_tokens.sum()) for columns in epochs)
    tokens = sum(int(columns.tokens.sum(dtype=np.int64)) for columns in epochs)
    return 1 - tokens / padded if padded else 0.0


def _policies(plan: BatchPlan, training: Training, world_size: int, steps: int) -> tuple[Policy, ...]:
    counts = PlannedCounts(plan, world_size, training.accumulation, training.balance)
    compared = counts.compared(steps)
    return tuple(
        Policy(
            balance,
            *counts.evenness(balance, compared),
            chosen=balance == training.balance,
            steps=compared,
        )
        for balance in BALANCES
    )


# Text lines on how much each rank reads and how even that is.

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
        f"balance {policy.name + ':':<10} {policy.slowest:.3f} per step, {policy.imbalance:.3f} "
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
