"""Batch arithmetic of one optimizer step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from torchdeck.config.training import Training
from torchdeck.contract.plan.launch_plan import Batch

SCALING: Mapping[str, Callable[[float], float]] = {
    "none": lambda _: 1.0,
    "linear": lambda ratio: ratio,
    "sqrt": math.sqrt,
}
"""Scaling rule → factor of the learning rate, given global batch ÷ reference batch.

Linear: Goyal et al. 2017 (arXiv:1706.02677), for SGD. Square root: Krizhevsky 2014 (arXiv:1404.5997), and
Malladi et al. 2022 (arXiv:2205.10287) for Adam.
"""


def plan_batch(training: Training, world_size: int, *, mean_microbatch: float | None = None) -> Batch:
    """Return global batch and learning rate for `world_size` ranks.

    Args:
        training: training settings.
        world_size: total number of ranks.
        mean_microbatch: mean samples per microbatch of the batch plan, used instead of training.microbatch;
            None: there is no batch plan.
    """
    microbatch = training.microbatch if mean_microbatch is None else mean_microbatch
    per_rank = microbatch * training.accumulation
    reference = max(1, round(per_rank)) if training.reference_batch is None else training.reference_batch
    global_batch = per_rank * world_size
    ratio = world_size if training.reference_batch is None else global_batch / reference
    factor = SCALING[training.scaling](ratio)
    return Batch(
        microbatch=microbatch,
        accumulation=training.accumulation,
        world_size=world_size,
        global_batch=max(1, round(global_batch)),
        lr=training.lr,
        lr_factor=factor,
        scaled_lr=training.lr * factor,
        scaling=training.scaling,
        reference_batch=reference,
        steps=training.steps,
    )


def smaller_batch(batch: Batch, world_size: int) -> Batch:
    """Return the same global batch on fewer ranks: each processes more microbatches.

    If the microbatches of a step do not divide evenly among the ranks, the number per rank is rounded up and
    the global batch grows slightly. The learning rate then follows the larger global batch by the scaling
    rule.

    Args:
        batch: batch arithmetic at full size.
        world_size: world size of the smaller gang.
    """
    before = batch.accumulation * batch.world_size
    accumulation = -(-before // world_size)
    after = accumulation * world_size
    if after == before:
        return replace(batch, accumulation=accumulation, world_size=world_size)
    factor = batch.lr_factor * SCALING[batch.scaling](after / before)
    return replace(
        batch,
        accumulation=accumulation,
        world_size=world_size,
        global_batch=max(1, round(batch.microbatch * after)),
        lr_factor=factor,
        scaled_lr=batch.lr * factor,
    )


def other_batch(batch: Batch, full: Batch) -> str:
    """Return a sentence that the global batch of a smaller size differs from that of the full one; empty if
    it does not.
    """
    if batch.global_batch == full.global_batch and batch.lr_factor == full.lr_factor:
        return ""
    text = (
        f"at {batch.world_size} ranks the global batch is {batch.global_batch:,} samples in place of "
        f"{full.global_batch:,}: {full.accumulation * full.world_size} microbatches cannot be divided evenly "
        f"among them, so each makes {batch.accumulation}"
    )
    if batch.scaled_lr == full.scaled_lr:
        return f"{text}; lr stays {batch.scaled_lr:g}"
    return f"{text}; lr {full.scaled_lr:g} becomes {batch.scaled_lr:g} ({batch.scaling} in the global batch)"


def explain_batch(
    batch: Batch, *, steps: int | None = None, samples: int | None = None, in_epoch: int | None = None
) -> list[str]:
    """Return the arithmetic as readable text: one sentence per line.

    Args:
        batch: the arithmetic.
        steps: total optimizer steps, if `batch` does not have them; `LaunchPlan.steps`.
        samples: samples of all ranks in all steps, if that was counted.
        in_epoch: samples of the data set, which no step exceeds, if known.
    """
    mean = isinstance(batch.microbatch, float)
    microbatch = f"{batch.microbatch:.6g}" if mean else f"{batch.microbatch}"
    factors = f"{microbatch} × {batch.accumulation} × {batch.world_size:,}"
    made_of = "mean microbatch of the batch plan" if mean else "microbatch"
    about = "≈" if mean else "="
    lines = [
        f"global batch {factors} {about} {batch.global_batch:,} samples ({made_of} × accumulation × ranks)"
    ]
    if batch.scaling == "none":
        lines.append(f"Learning rate {batch.lr:g} (not scaled with batch size)")
    else:
        root = "√" if batch.scaling == "sqrt" else ""
        ratio = batch.lr_factor**2 if batch.scaling == "sqrt" else batch.lr_factor
        lines.append(
            f"lr {batch.lr:g} × {root}{ratio:g} = {batch.scaled_lr:g} ({batch.scaling} in the global batch; "
            f"{batch.lr:g} is for {batch.reference_batch})"
        )
    if in_epoch is not None and in_epoch < batch.global_batch:
        lines.append(_less(batch, in_epoch))
    steps = batch.steps if batch.steps is not None else steps
    if steps is not None:
        lines.append(_length(steps, batch, samples, mean=mean))
    return lines


def _less(batch: Batch, in_epoch: int) -> str:
    """Return that steps are smaller than their arithmetic, and the effect on the learning rate."""
    text = f"warning: an epoch has {in_epoch:,} samples, so a step has at most these"
    if batch.scaling == "none":
        return text
    return f"{text}; lr is still scaled for {batch.global_batch:,}"


def _length(steps: int, batch: Batch, samples: int | None, *, mean: bool) -> str:
    counted = f"{steps:,} step{'' if steps == 1 else 's'}"
    whole = steps * batch.global_batch
    if mean:
        return f"{counted} ≈ {whole:,} samples" if samples is None else f"{counted}: {samples:,} samples"
    if samples is None or samples == whole:
        return f"{counted} × {batch.global_batch:,} = {whole:,} samples"
    return f"{counted}: {samples:,} samples, the last step of an epoch takes the remainder"
