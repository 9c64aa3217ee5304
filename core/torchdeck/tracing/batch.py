"""The data set, for its size and the shapes of a batch; nothing of its content is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.utils.data import default_collate

from torchdeck.distributed.batches import SizedDataset
from torchdeck.distributed.process_group import ProcessGroup
from torchdeck.distributed.trainer.setup import build_heldout_data, build_training_data
from torchdeck.environment import Place
from torchdeck.recipes.errors import RecipeError
from torchdeck.recipes.loader import Recipe
from torchdeck.tracing.faults import explained
from torchdeck.tracing.request import TraceRequest, WantedTrace

_TIMEOUT = 60.0


@dataclass(frozen=True)
class TracingData:
    """A recipe's data as a rank would build it."""

    recipe: Recipe
    train: SizedDataset
    heldout_samples: int | None
    """None where nothing is evaluated, or nothing held out."""

    def batch(self, wanted: WantedTrace) -> Any:
        """The wanted samples as a batch; the first ones again where there are fewer.

        Raises:
            RecipeError, TracingError: a sample is not there, cannot be read, or does not go with the others.
        """
        size = len(self.train)
        if any(sample >= size for sample in wanted.samples):
            raise RecipeError(
                f"the batch plan names sample {max(wanted.samples)}, and the data has {size}: build the plan "
                "for this data"
            )
        ids = wanted.samples or [i % size for i in range(wanted.microbatch)]
        collate = self.recipe.collate or default_collate
        with explained("reading samples", self.recipe.name):
            samples = [self.train[i] for i in ids]
        with explained("collate(samples)" if self.recipe.collate else "collating", self.recipe.name):
            return collate(samples)


def open_data(recipe: Recipe, request: TraceRequest) -> TracingData:
    """The data that `request` names.

    Raises:
        RecipeError, TracingError: it cannot be read, or is not a data set.
    """
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
