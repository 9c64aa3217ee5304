"""Size of each microbatch of some steps, for every rank; computed on demand."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from torchdeck.data.batch_plan import BatchPlan, PlanPosition, plan_steps
from torchdeck.data.order import steps_per_epoch
from torchdeck.plan.preview.data_share import Load

if TYPE_CHECKING:
    from torchdeck.config.training import Training
    from torchdeck.plan.preview.preview import Preview

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MicrobatchTable(Load):
    """Microbatches of some consecutive steps.

    Columns are microbatches in the order a rank processes them, `accumulation` per step.
    """

    first_step: int
    """Counted from 0."""
    accumulation: int
    samples: Ints
    """Shape (world size, steps × accumulation); 0 if a rank has nothing to do."""
    tokens: npt.NDArray[np.float64] | None
    """Same shape, without padding; None if samples have no known length."""
    padded: Ints | None
    """Same shape: computed tokens, padding included; None if nothing is padded or known."""

    @property
    def steps(self) -> int:
        """Total number."""
        return int(self.samples.shape[1]) // self.accumulation


def microbatch_table(preview: Preview, first_step: int, steps: int) -> MicrobatchTable | None:
    """Return the microbatches of at most `steps` steps beginning with `first_step` (from 0); fewer at the end
    of the run.

    Pure; takes up to a second for a balanced batch plan of thousands of ranks.

    Returns:
        None if nothing is known about the data.

    Raises:
        ValueError: the run has no such step.
    """
    data, training, known = preview.data, preview.config.training, preview.known
    if data is None:
        return None
    if not 0 <= first_step < data.steps:
        raise ValueError(f"there is no step {first_step}: steps go from 0 to {data.steps - 1}")
    steps = max(1, min(steps, data.steps - first_step))
    world_size = preview.plan.world_size
    if known.batch_plan is not None:
        return _planned(known.batch_plan, training, world_size, first_step, steps)
    samples = _seeded(training, data.size, world_size, first_step, steps)
    each = None if known.profile is None else known.profile.tokens_per_sample
    tokens = None if each is None else samples.astype(np.float64) * each
    return MicrobatchTable(first_step, training.accumulation, samples, tokens, None)


def _seeded(training: Training, size: int, world_size: int, first: int, steps: int) -> Ints:
    """Count by the rule of `torchdeck.data.order`: part k of n samples spans ⌊k·n/parts⌋ to
    ⌊(k+1)·n/parts⌋.
    """
    parts = world_size * training.accumulation
    batch = training.microbatch * parts
    in_epoch = np.arange(first, first + steps, dtype=np.int64) % steps_per_epoch(size, batch)
    taken = np.minimum(batch, size - in_epoch * batch)
    edges = np.arange(parts + 1, dtype=np.int64) * taken[:, None] // parts
    # part m × world size + r is microbatch m of rank r
    sizes = np.diff(edges, axis=1).reshape(steps * training.accumulation, world_size)
    return np.ascontiguousarray(sizes.T)


def _planned(plan: BatchPlan, training: Training, world_size: int, first: int, steps: int) -> MicrobatchTable:
    planned = plan_steps(
        plan,
        world_size=world_size,
        accumulation=training.accumulation,
        balance=training.balance,
        start=_position(plan, world_size * training.accumulation, first),
    )
    measures: list[list[Ints]] = []
    for step in itertools.islice(planned, steps):
        columns, there = step.columns, step.table >= 0
        wanted = np.where(there, step.table, 0)
        of_all = (columns.batch_size, columns.tokens, columns.padded_tokens)
        measures.append([np.where(there, values[wanted], 0).astype(np.int64) for values in of_all])
    samples, tokens, padded = (np.concatenate(parts, axis=1) for parts in zip(*measures, strict=True))
    return MicrobatchTable(first, training.accumulation, samples, tokens.astype(np.float64), padded)


def _position(plan: BatchPlan, per_step: int, step: int) -> PlanPosition:
    """Return the position at which `step` begins; steps do not cross from one epoch into the next."""
    before = 0
    for epoch in range(plan.epochs):
        in_epoch = steps_per_epoch(plan.microbatches(epoch), per_step)
        if step < before + in_epoch:
            return PlanPosition(epoch, (step - before) * per_step, step)
        before += in_epoch
    raise ValueError(f"there is no step {step}: the batch plan has {before}")
