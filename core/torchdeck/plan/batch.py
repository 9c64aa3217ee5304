"""The arithmetic of one optimizer step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from torchdeck.config.training import Training
from torchdeck.plan.launch_plan import Batch

SCALING: Mapping[str, Callable[[float], float]] = {
    "none": lambda _: 1.0,
    "linear": lambda ratio: ratio,
    "sqrt": math.sqrt,
}
"""Scaling rule → factor of the learning rate, given global batch ÷ reference batch.

Linear: Goyal et al. 2017 (arXiv:1706.02677), for SGD. Square root: Krizhevsky 2014 (arXiv:1404.5997), and
Malladi et al. 2022 (arXiv:2205.10287) for Adam.
"""


def plan_batch(training: Training, world_size: int) -> Batch:
    """Global batch and learning rate for `world_size` ranks."""
    per_rank = training.microbatch * training.accumulation
    reference = per_rank if training.reference_batch is None else training.reference_batch
    global_batch = per_rank * world_size
    factor = SCALING[training.scaling](global_batch / reference)
    return Batch(
        microbatch=training.microbatch,
        accumulation=training.accumulation,
        world_size=world_size,
        global_batch=global_batch,
        lr=training.lr,
        lr_factor=factor,
        scaled_lr=training.lr * factor,
        scaling=training.scaling,
        reference_batch=reference,
        steps=training.steps,
    )


def explain_batch(batch: Batch, *, steps: int | None = None) -> list[str]:
    """The arithmetic in words, for people: one sentence a line.

    Args:
        batch: the arithmetic.
        steps: optimizer steps in all, where `batch` does not say; `LaunchPlan.steps`.
    """
    factors = f"{batch.microbatch} × {batch.accumulation} × {batch.world_size:,}"
    lines = [f"global batch {factors} = {batch.global_batch:,} samples (microbatch × accumulation × ranks)"]
    if batch.scaling == "none":
        lines.append(f"lr {batch.lr:g}, whatever the global batch")
    else:
        root = "√" if batch.scaling == "sqrt" else ""
        ratio = batch.global_batch / batch.reference_batch
        lines.append(
            f"lr {batch.lr:g} × {root}{ratio:g} = {batch.scaled_lr:g} ({batch.scaling} in the global batch; "
            f"{batch.lr:g} is for {batch.reference_batch})"
        )
    steps = batch.steps if batch.steps is not None else steps
    if steps is not None:
        lines.append(f"{steps:,} steps × {batch.global_batch:,} = {steps * batch.global_batch:,} samples")
    return lines
