"""Source of a training's steps."""

from __future__ import annotations

import re
from pathlib import Path

from torchdeck.data.batch_plan import BatchPlan, BatchPlanError, load_batch_plan
from torchdeck.data.order import SampleOrder
from torchdeck.data.planned_steps import PlannedSteps
from torchdeck.data.step_order import SeededSteps, StepOrder
from torchdeck.distributed.batches import takes_layout
from torchdeck.distributed.group.agreement import check_agreement
from torchdeck.distributed.group.process_group import ProcessGroup
from torchdeck.distributed.recipe import Recipe, RecipeError
from torchdeck.distributed.settings import TrainingSettings
from torchdeck.distributed.trainer.data_identity import DataIdentity
from torchdeck.environment import Place

_SHA256 = re.compile("[0-9a-f]{64}")
_LENGTHS = "lengths-"


def make_order(
    training: TrainingSettings, data: DataIdentity, place: Place, group: ProcessGroup
) -> StepOrder:
    """Create the steps of a training over `data` at the world size of `place`; every rank calls it together.

    One rank per node hashes a batch plan; the others map it.

    Raises:
        BatchPlanError: the batch plan is damaged, or was built for other data.
        AgreementError: ranks see different plans.
    """
    if training.batch_plan is None:
        return SeededSteps(
            SampleOrder(data.size, training.seed),
            microbatch=training.microbatch,
            accumulation=training.accumulation,
            world_size=place.world_size,
        )
    plan = load_batch_plan(training.batch_plan, verify=place.local_rank == 0)
    _check_built_for(plan, data, Path(training.batch_plan))
    check_agreement(group, {"batch plan": plan.fingerprint})
    return PlannedSteps(
        plan, world_size=place.world_size, accumulation=training.accumulation, balance=training.balance
    )


def check_collate(needs_layout: str, recipe: Recipe) -> None:
    """Raise RecipeError if an order needs a layout, for this reason, and the recipe does not accept one."""
    if needs_layout and not takes_layout(recipe.collate):
        raise RecipeError(
            f"the batch plan {needs_layout}, which recipe {recipe.name} would not see: define "
            "collate(samples, layout=None), which gets layout.max_len and layout.row_sizes"
        )


def _check_built_for(plan: BatchPlan, data: DataIdentity, folder: Path) -> None:
    if plan.size != data.size:
        raise BatchPlanError(
            f"the batch plan in {folder} was built for {plan.size} samples, and the training data has "
            f"{data.size}: build it again"
        )
    then, now = plan.meta.dataset_fingerprint, data.fingerprint
    if then != now and _kind(then) == _kind(now) != "":
        raise BatchPlanError(
            f"the batch plan in {folder} is stale: it was built for data with fingerprint {then}, and the "
            f"training data has {now}: build it again"
        )


def _kind(fingerprint: str) -> str:
    """Return the kind of data a fingerprint covers, if it records one: only equal kinds can be compared."""
    if fingerprint.startswith(_LENGTHS):
        return _LENGTHS
    return "content" if _SHA256.fullmatch(fingerprint) else ""
