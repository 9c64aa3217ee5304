"""Traces a recipe: builds its model without memory, and follows what forward and backward allocate."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

from torchdeck.distributed.activation_checkpointing import checkpoint_blocks
from torchdeck.distributed.precision import DTYPES
from torchdeck.distributed.seeding import seed_all
from torchdeck.distributed.trainer.setup import build_model
from torchdeck.plan.model_profile import ModelProfile, Trace
from torchdeck.recipes.loader import Recipe, load_recipe
from torchdeck.tracing.batch import TracingData, open_data
from torchdeck.tracing.faults import explained
from torchdeck.tracing.microbatch import trace_microbatch
from torchdeck.tracing.request import TraceRequest, WantedTrace
from torchdeck.tracing.units import UnitMap, buffer_infos, map_units, parameter_infos
from torchdeck.tracing.weights import gathered, gathered_dtype

Progress = Callable[[str], None]
"""Told what is being done, in a few words."""


def trace_recipe(request: TraceRequest, progress: Progress) -> ModelProfile:
    """The profile that `request` asks for.

    Raises:
        RecipeError, TracingError: the recipe cannot be traced; the message says why.
    """
    progress("loading the recipe")
    with explained("importing", request.recipe):
        recipe = load_recipe(request.recipe)
    return trace_loaded(recipe, request, progress)


def trace_loaded(recipe: Recipe, request: TraceRequest, progress: Progress) -> ModelProfile:
    """As `trace_recipe`, of a recipe whose functions are at hand."""
    progress("reading the data")
    data = open_data(recipe, request)
    progress("building the model")
    return _Tracer(recipe, request, data, FakeTensorMode(allow_non_fake_inputs=True)).profile(progress)


@dataclass(frozen=True)
class _Tracer:
    """One recipe with its data, and the kind of tensors its model is made of."""

    recipe: Recipe
    request: TraceRequest
    data: TracingData
    fake: FakeTensorMode | None
    """None: real tensors."""

    def profile(self, progress: Progress) -> ModelProfile:
        """Build the model and trace it."""
        request = self.request
        seed_all(request.seed)
        with self._tensors(), explained("build_model(options)", self.recipe.name):
            model = build_model(self.recipe, request.model).train()
        units, notes = map_units(model, self.recipe, request.fsdp)
        parameters = parameter_infos(model, units)
        plain = [wanted for wanted in request.traces if not wanted.checkpointing]
        traced = [self._trace(wanted, model, units, progress) for wanted in plain]
        again = [wanted for wanted in request.traces if wanted.checkpointing]
        if again and self.recipe.blocks is None:
            notes += ("the recipe has no function blocks(model), so activation checkpointing has no blocks",)
        elif again:
            checkpoint_blocks(model, self.recipe.blocks)
            traced += [self._trace(wanted, model, units, progress) for wanted in again]
        return ModelProfile(
            source="traced",
            parameters=parameters,
            buffers=buffer_infos(model, units),
            units=units.names,
            precision=request.precision,
            traces=tuple(trace for trace, _ in traced),
            train_samples=len(self.data.train),
            heldout_samples=self.data.heldout_samples,
            tokens_per_sample=_tokens_per_sample(traced),
            notes=notes,
        )

    def _trace(
        self, wanted: WantedTrace, model: nn.Module, units: UnitMap, progress: Progress
    ) -> tuple[Trace, float | None]:
        progress(f"tracing {wanted.microbatch} samples")
        request = self.request
        weights: AbstractContextManager[object] = nullcontext()
        if wanted.cast:
            weights = gathered(model, units, gathered_dtype(DTYPES[request.precision], request.fsdp))
        batch = self.data.batch(wanted.microbatch)
        with self._tensors(), weights:
            batches = [self._like(batch)]
            return trace_microbatch(wanted, self.recipe, model, units, batches, request.precision)

    def _tensors(self) -> AbstractContextManager[object]:
        return nullcontext() if self.fake is None else self.fake

    def _like(self, batch: Any) -> Any:
        """`batch` of the tensors that the model is made of."""
        return batch if self.fake is None else tree_map_only(Tensor, self.fake.from_tensor, batch)


def _tokens_per_sample(traced: list[tuple[Trace, float | None]]) -> float | None:
    largest = max(traced, key=lambda pair: pair[0].microbatch, default=None)
    if largest is None or largest[1] is None:
        return None
    return largest[1] / largest[0].microbatch
