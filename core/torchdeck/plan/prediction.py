"""Expected requirements and usage of a run, from the profile of its model and the plan of its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from torchdeck.config.schema import RunConfig
from torchdeck.config.training import Training
from torchdeck.contract.plan.model_profile import NO_BLOCKS, ONE_UNIT, ModelProfile
from torchdeck.contract.plan.prediction import PredictedData, Prediction, RankCounts
from torchdeck.data.batch_plan import BatchPlan, BatchPlanError
from torchdeck.data.order import steps_per_epoch
from torchdeck.plan.check import PlanError, problem
from torchdeck.plan.fitting import cheaper, fitted, spec_of
from torchdeck.plan.known import Known
from torchdeck.plan.memory.spec import FULLY_SHARDED
from torchdeck.plan.placement import NodeShare
from torchdeck.plan.planned_counts import PlannedCounts, step_order


def predict(config: RunConfig, shares: Sequence[NodeShare], backend: str, known: Known) -> Prediction:
    """Predict a run before it starts; parts without enough facts are empty.

    Args:
        config: config of the run.
        shares: its ranks on every node.
        backend: `gloo` or `nccl`, resolved.
        known: facts about model and data.

    Raises:
        PlanError: the known facts do not fit the config.
    """
    profile = known.profile
    world_size = sum(share.nproc for share in shares)
    # a script manages its own data
    data = None if config.run.recipe is None else predict_data(config.training, world_size, known)
    scarce = () if data is None else data_notes(data, config.training, world_size, known)
    spec = spec_of(config, shares, backend, known)
    memory, notes = fitted(config, spec, shares, known)
    return Prediction(
        source="" if profile is None else profile.source,
        memory=memory,
        data=data,
        notes=(*known.notes, *scarce, *notes, *(() if profile is None else _told(profile, config))),
        cheaper=cheaper(spec, memory, known) if any(share.devices for share in shares) else (),
    )


def _told(profile: ModelProfile, config: RunConfig) -> tuple[str, ...]:
    """Return the notes of `profile` that matter to this run."""
    idle = set()
    if config.distributed.strategy not in FULLY_SHARDED:
        idle.add(ONE_UNIT)
    if not config.training.activation_checkpointing:
        idle.add(NO_BLOCKS)
    return tuple(note for note in profile.notes if note not in idle)


# Samples and tokens of every rank over the whole run.


def predict_data(training: Training, world_size: int, known: Known) -> PredictedData | None:
    """Predict what each rank reads; None if the size of the data is not known.

    Raises:
        PlanError: the batch plan does not fit the run.
    """
    try:
        order = step_order(training, world_size, known)
        if order is None:
            return None
        steps = order.total_steps(training.steps, training.epochs, order.start)
    except BatchPlanError as error:
        right = "a whole batch plan, of as many epochs as the run trains for"
        raise PlanError([problem("training.batch_plan", str(error), right)]) from error
    if known.batch_plan is not None:
        return _planned(training, world_size, known.batch_plan, steps)
    each = None if known.profile is None else known.profile.tokens_per_sample
    seeded = SeededCounts(order.size, training.microbatch, training.accumulation, world_size)
    samples = seeded.samples(steps)
    return PredictedData(
        source="seeded order",
        fingerprint="",
        size=seeded.size,
        steps_per_epoch=seeded.per_epoch,
        steps=steps,
        ranks=rank_counts(samples, None if each is None else (samples * each).astype(np.float64)),
    )


def data_notes(data: PredictedData, training: Training, world_size: int, known: Known) -> tuple[str, ...]:
    """Return notes about data that is smaller than one step."""
    wanted, there, things = training.accumulation * world_size, data.size, "samples"
    if known.batch_plan is None:
        wanted *= training.microbatch
    else:
        there, things = known.batch_plan.microbatches(0), "microbatches"
    if there >= wanted:
        return ()
    said = f"a step takes {wanted:,} {things} and an epoch has {there:,}: each step is a whole epoch"
    idle = sum(counts.last - counts.first + 1 for counts in data.ranks if not counts.samples)
    return (f"{said}, and {idle:,} of {world_size:,} ranks read nothing" if idle else said,)


def _planned(training: Training, world_size: int, plan: BatchPlan, steps: int) -> PredictedData:
    counts = PlannedCounts(plan, world_size, training.accumulation, training.balance)
    totals = counts.totals(steps)
    return PredictedData(
        source="batch plan",
        fingerprint=plan.fingerprint,
        size=plan.size,
        steps_per_epoch=counts.per_epoch,
        steps=steps,
        ranks=rank_counts(totals.samples, totals.tokens.astype(np.float64)),
    )


def rank_counts(samples: Counts, tokens: npt.NDArray[np.float64] | None) -> tuple[RankCounts, ...]:
    """Group consecutive ranks that read the same amount."""
    changes = np.diff(samples) != 0
    if tokens is not None:
        changes |= np.diff(tokens) != 0
    starts = [0, *(np.flatnonzero(changes) + 1).tolist()]
    ends = [*(start - 1 for start in starts[1:]), len(samples) - 1]
    return tuple(
        RankCounts(first, last, int(samples[first]), None if tokens is None else float(tokens[first]))
        for first, last in zip(starts, ends, strict=True)
    )


# Counts of what ranks read when samples come in a seeded order, computed arithmetically without drawing the
# order. The rules are those of `torchdeck.data.order`: in a full step every microbatch has its whole size,
# and the last step of an epoch is split into parts that differ by at most one sample.

Counts = npt.NDArray[np.int64]
"""One number per rank, shape (world size,)."""


@dataclass(frozen=True)
class SeededCounts:
    """Counts of the steps over a data set in a seeded order; every number is at least 1."""

    size: int
    """Samples of the data set."""
    microbatch: int
    accumulation: int
    world_size: int

    @property
    def global_batch(self) -> int:
        """Number of samples in a full step."""
        return self.microbatch * self.accumulation * self.world_size

    @property
    def per_epoch(self) -> int:
        """Number of steps per epoch, the partial last one included."""
        return steps_per_epoch(self.size, self.global_batch)

    def samples(self, steps: int) -> Counts:
        """Return the samples that each rank reads in the first `steps` steps."""
        epochs, rest = divmod(steps, self.per_epoch)
        full, left = divmod(self.size, self.global_batch)
        full_steps = epochs * full + min(rest, full)
        whole = full_steps * self.microbatch * self.accumulation
        return whole + epochs * self._parts(left)

    def _parts(self, left: int) -> Counts:
        """Return the samples of each rank in a step of `left` samples."""
        parts = self.accumulation * self.world_size
        edges = np.arange(parts + 1, dtype=np.int64) * left // parts
        sizes: Counts = np.diff(edges)
        counts: Counts = sizes.reshape(self.accumulation, self.world_size).sum(axis=0)
        return counts
