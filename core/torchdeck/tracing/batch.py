"""The data set, for its size and the shapes of a batch; nothing of its content is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.utils.data import default_collate

from torchdeck.data.step_order import Layout
from torchdeck.distributed.batches import SizedDataset, takes_layout
from torchdeck.distributed.group.process_group import ProcessGroup
from torchdeck.distributed.trainer.order import check_collate
from torchdeck.distributed.trainer.setup import build_heldout_data, build_training_data
from torchdeck.environment import Place
from torchdeck.recipes.errors import RecipeError
from torchdeck.recipes.loader import Recipe
from torchdeck.tracing.faults import explained
from torchdeck.tracing.request import PlannedBatch, TraceRequest

_TIMEOUT = 60.0


@dataclass(frozen=True)
class TracingData:
    """A recipe's data as a rank would build it."""

    recipe: Recipe
    train: SizedDataset
    heldout_samples: int | None
    """None where nothing is evaluated, or nothing held out."""

    def batch(self, wanted: int | PlannedBatch) -> Any:
        """So many samples from the first on (again where there are fewer), or those of a plan, as a batch.

        Raises:
            RecipeError, TracingError: a sample is not there, cannot be read, or does not go with the others.
        """
        size = len(self.train)
        layout: Layout | None = None
        if isinstance(wanted, int):
            ids = tuple(i % size for i in range(wanted))
        else:
            ids, layout = wanted.samples, Layout(wanted.max_len, wanted.row_sizes)
        if max(ids) >= size:
            raise RecipeError(
                f"the batch plan names sample {max(ids)}, and the data has {size}: build the plan for this "
                "data"
            )
        collate: Callable[..., Any] = self.recipe.collate or default_collate
        with explained("reading samples", self.recipe.name):
            samples = [self.train[i] for i in ids]
        with explained("collate(samples)" if self.recipe.collate else "collating", self.recipe.name):
            return collate(samples, layout=layout) if takes_layout(collate) else collate(samples)


def open_data(recipe: Recipe, request: TraceRequest) -> TracingData:
    """The data that `request` names.

    Raises:
        RecipeError, TracingError: it cannot be read, is not a data set, or its batches cannot be made.
    """
    with explained("collate(samples)", recipe.name, as_in_ranks=True):
        check_collate(request.needs_layout, recipe)
    alone = ProcessGroup(Place(), backend="gloo", timeout=_TIMEOUT, alone=True)
    with explained("data_options(model, data)", recipe.name):
        options = recipe.options_of_data(request.model, request.data)
    with explained('build_data(options, "train")', recipe.name):
        train = build_training_data(recipe, options, alone, request.seed)
    heldout = None
    if request.heldout:
        with explained('build_data(options, "heldout")', recipe.name):
            heldout = build_heldout_data(recipe, options, alone, request.seed)
    return TracingData(recipe, train, None if heldout is None else len(heldout))
