"""Source of a training's steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torchdeck.data.batch_plan import BatchPlan, BatchPlanError, load_batch_plan
from torchdeck.data.order import Ids, PositionError, SampleOrder
from torchdeck.data.planned_steps import PlannedSteps
from torchdeck.data.step_order import SeededSteps, StepOrder
from torchdeck.distributed.batches import SizedDataset, takes_layout
from torchdeck.distributed.group.agreement import require_same
from torchdeck.distributed.group.process_group import ProcessGroup
from torchdeck.distributed.rank_settings import TrainingSettings
from torchdeck.distributed.recipe_loading import Recipe, RecipeError
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
    require_same(group, {"batch plan": plan.fingerprint})
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
    # names of samples are compared instead, by `rows_by_name`
    if plan.size != data.size and plan.names is None:
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


# Samples that a batch plan names, as plans of other programs do.

_SHOWN = 3
"""Number of names in a message."""


class NamedSamples:
    """A data set in the numbering of a batch plan: sample i is the row with the plan's i-th name.

    Args:
        data: the whole data set.
        rows: row of each name, shape (n,).
    """

    def __init__(self, data: SizedDataset, rows: Ids) -> None:
        self._data = data
        self._rows = rows
        many = getattr(data, "__getitems__", None)
        if many is not None:
            self.__getitems__: Callable[[Sequence[int]], Any] = lambda ids: many(rows[ids].tolist())
        set_epoch = getattr(data, "set_epoch", None)
        if set_epoch is not None:
            self.set_epoch = set_epoch

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Any:
        return self._data[int(self._rows[index])]


def in_order_of(names: Sequence[str] | None, data: SizedDataset) -> SizedDataset:
    """Return `data` in the numbering of a batch plan whose samples have `names`; unchanged without names.

    Raises:
        BatchPlanError: as `rows_by_name`.
    """
    return data if names is None else NamedSamples(data, rows_by_name(names, data))


def rows_by_name(names: Sequence[str], data: SizedDataset) -> Ids:
    """Return the row of `data` for each of a batch plan's `names`, by its attribute `sample_names`.

    Raises:
        BatchPlanError: the data set has no names, lacks one of these, or has one twice.
    """
    known: Any = getattr(data, "sample_names", None)
    if known is None:
        raise BatchPlanError(
            f"the samples of the batch plan have names ({_listed(names)}), and the training data does not "
            "say which row each is: give the data set an attribute sample_names (a list of the names, by "
            "row), or write row numbers into the plan"
        )
    if len(known) != len(data):
        raise BatchPlanError(
            f"sample_names of the training data has {len(known)} names for {len(data)} samples: expected one "
            "for each row"
        )
    row_of = {str(name): row for row, name in enumerate(known)}
    missing = [name for name in names if name not in row_of]
    if missing:
        raise BatchPlanError(
            f"the training data has no samples named {_listed(missing)}, which the batch plan names "
            f"({len(missing)} in all): build the plan again, or look at sample_names of the data set"
        )
    if len(row_of) < len(known):
        twice = next(str(name) for row, name in enumerate(known) if row_of[str(name)] != row)
        raise BatchPlanError(f"sample_names of the training data has {twice!r} twice: names must differ")
    return np.array([row_of[name] for name in names], dtype=np.int64)


def _listed(names: Sequence[str]) -> str:
    more = ", …" if len(names) > _SHOWN else ""
    return ", ".join(repr(name[:40]) for name in names[:_SHOWN]) + more


# Identity of the training data, so that a checkpoint is not resumed with other data.


@dataclass(frozen=True)
class DataIdentity:
    """Known properties of a training data set."""

    size: int
    """Samples."""
    fingerprint: str = ""
    """Recipe-defined text that distinguishes its data from other data; empty if not defined."""

    def to_json(self) -> dict[str, Any]:
        """Return the position for a checkpoint."""
        return {"size": self.size, "fingerprint": self.fingerprint}

    def check_same(self, saved: Any) -> None:
        """Raise PositionError if `saved`, from a checkpoint, describes other data.

        Values missing on either side are not compared; checkpoints of older Torchdeck versions have none.
        """
        if not isinstance(saved, Mapping):
            return
        size, fingerprint = saved.get("size"), saved.get("fingerprint")
        if size is not None and size != self.size:
            raise PositionError(
                f"the checkpoint was trained on {size} samples, and the training data has {self.size}: "
                "give the data it was trained on, or start over"
            )
        if fingerprint and self.fingerprint and fingerprint != self.fingerprint:
            raise PositionError(
                f"the checkpoint was trained on data with fingerprint {fingerprint}, and the training data "
                f"has {self.fingerprint}: give the data it was trained on, or start over"
            )


def data_identity(recipe: Recipe, options: dict[str, Any], data: SizedDataset) -> DataIdentity:
    """Return the size of `data`, and the fingerprint from the recipe's `fingerprint(options)` or the data
    set's `fingerprint`.

    Raises:
        RecipeError: the recipe's function does not return a string.
    """
    if recipe.fingerprint is None:
        said = getattr(data, "fingerprint", "")
        return DataIdentity(len(data), said if isinstance(said, str) else "")
    said = recipe.fingerprint(dict(options))
    if not isinstance(said, str):
        raise RecipeError(
            f"fingerprint(options) of recipe {recipe.name} returned {type(said).__name__}: return a text "
            "that differs where the data does"
        )
    return DataIdentity(len(data), said)
