"""Build a batch plan and write it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchdeck.data.batch_plan import BatchPlan, BatchPlanError, build_batch_plan, save_batch_plan
from torchdeck.data.batch_plan.files.length_files import Progress
from torchdeck.data.batch_plan.files.plan_files import Layout
from torchdeck.use_cases.batch_plans.source import PlanSource, check_recipe

if TYPE_CHECKING:
    from torchdeck.config.schema import RunConfig


@dataclass(frozen=True)
class PlanRules:
    """Settings of `build_batch_plan`."""

    token_budget: int
    seed: int = 0
    epochs: int = 1
    buckets: int | Sequence[int] = 32
    max_length: int | None = None
    too_long: str = "error"
    empty: str = "error"
    pack: bool = False
    pad_to: str = "longest"


@dataclass(frozen=True)
class PlanNeeds:
    """Properties of a plan that a run determines; None: the usual."""

    output: str | None = None
    epochs: int | None = None
    max_length: int | None = None


def needs_of(config: RunConfig, named: str) -> PlanNeeds:
    """Return the run's needs: where it looks for its plan, how long it trains, and its model's context.

    Raises:
        BatchPlanError: its recipe is another than `RECIPE`; `named` is its run file.
    """
    check_recipe(config, named)
    epochs = config.training.epochs
    return PlanNeeds(
        config.training.batch_plan,
        None if epochs is None else math.ceil(epochs),
        config.model["context"],
    )


def build_plan(
    source: PlanSource,
    rules: PlanRules,
    output: str,
    progress: Progress,
    *,
    layout: Layout = "columns",
    overwrite: bool = False,
) -> BatchPlan:
    """Build the plan of a source, and write it to the folder `output`.

    Args:
        source: with lengths.
        rules: its settings.
        output: folder to write, atomically.
        progress: called after each epoch; an exception from it ends the call, and nothing is written.
        layout: of its files.
        overwrite: replace an existing batch plan.

    Raises:
        BatchPlanError: a setting is out of range, or the lengths contain what the settings treat as an error.
        OSError: it cannot be written.
    """
    if source.lengths is None:
        raise BatchPlanError("give --lengths, --dataset or --run")
    plan = build_batch_plan(
        source.lengths,
        token_budget=rules.token_budget,
        seed=rules.seed,
        epochs=rules.epochs,
        buckets=rules.buckets,
        max_length=rules.max_length,
        too_long=rules.too_long,
        empty=rules.empty,
        pack=rules.pack,
        pad_to=rules.pad_to,
        dataset_fingerprint=source.dataset_fingerprint or "",
        tokenizer_fingerprint=source.tokenizer_fingerprint or "",
        progress=progress,
    )
    save_batch_plan(plan, output, layout=layout, overwrite=overwrite, source=source.seen)
    return plan
