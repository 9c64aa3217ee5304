"""Traces a recipe: builds its model without memory, and follows what forward and backward allocate."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

from torchdeck.contract.plan.model_profile import NO_BLOCKS, ModelProfile
from torchdeck.distributed.activation_checkpointing import checkpoint_blocks
from torchdeck.distributed.precision import DTYPES
from torchdeck.distributed.seeding import seed_all
from torchdeck.distributed.trainer.setup import build_model
from torchdeck.distributed.units import blocks_of
from torchdeck.recipes.errors import RecipeImportError
from torchdeck.recipes.loader import Recipe, load_recipe
from torchdeck.tracing.batch import TracingData, open_data
from torchdeck.tracing.building import fake_building, forget_values
from torchdeck.tracing.faults import TracingError, ValuesNeededError, explained, import_fault
from torchdeck.tracing.microbatch import TracedMicrobatch, trace_microbatch
from torchdeck.tracing.no_gpu import WithoutGpu
from torchdeck.tracing.real_memory import MAX_PARAMETERS, bounded_memory
from torchdeck.tracing.request import PlannedBatch, TraceRequest, WantedTrace
from torchdeck.tracing.units import UnitMap, buffer_infos, check_tensors, map_units, parameter_infos
from torchdeck.tracing.weights import gathered, gathered_dtype

Progress = Callable[[str], None]
"""Told what is being done, in a few words."""


def trace_recipe(request: TraceRequest, progress: Progress) -> ModelProfile:
    """The profile that `request` asks for.

    Raises:
        RecipeError, TracingError: the recipe cannot be traced; the message says why.
    """
    progress("loading the recipe")
    try:
        with explained("the import", request.recipe, as_in_ranks=True):
            recipe = load_recipe(request.recipe)
    except RecipeImportError as error:
        raise import_fault(error, request.recipe) from error
    return trace_loaded(recipe, request, progress)


def trace_loaded(recipe: Recipe, request: TraceRequest, progress: Progress) -> ModelProfile:
    """As `trace_recipe`, of a recipe whose functions are at hand.

    A model whose building depends on values is built with real memory, and traced without. Where the loss
    does, a model of up to 200M parameters is traced with real memory too.
    """
    progress("reading the data")
    data = open_data(recipe, request)
    progress("building the model")
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    tracer = _Tracer(recipe, request, data, fake)
    real = replace(tracer, fake=None)
    try:
        model = tracer.build()
    except ValuesNeededError:
        progress("building the model with real memory")
        with bounded_memory():
            model = real.build()
        forget_values(model, fake)
    try:
        return tracer.profile(model, progress)
    except ValuesNeededError as error:
        parameters = sum(parameter.numel() for parameter in model.parameters())
        if parameters > MAX_PARAMETERS:
            raise TracingError(
                f"{error}; its result depends on values in tensors, and the model is too large "
                f"({parameters:,} parameters) to be traced with real ones: avoid .item(), and conditions and "
                "shapes that depend on values"
            ) from error
        return _trace_with_memory(real, str(error), progress)


def _trace_with_memory(tracer: _Tracer, reason: str, progress: Progress) -> ModelProfile:
    progress("building the model with real memory")
    with bounded_memory():
        profile = tracer.profile(tracer.build(), progress)
    note = f"traced with real tensors, as shapes may depend on values: {reason}"
    return replace(profile, notes=(*profile.notes, note))


@dataclass(frozen=True)
class _Tracer:
    """One recipe with its data, and the kind of tensors its model is made of."""

    recipe: Recipe
    request: TraceRequest
    data: TracingData
    fake: FakeTensorMode | None
    """None: real tensors."""

    def build(self) -> nn.Module:
        """The model, ready to train."""
        seed_all(self.request.seed)
        building = nullcontext() if self.fake is None else fake_building()
        own = explained("build_model(options)", self.recipe.name, as_in_ranks=True)
        with self._tensors(), building, WithoutGpu(), own:
            model = build_model(self.recipe, self.request.model).train()
        check_tensors(model)
        return model

    def profile(self, model: nn.Module, progress: Progress) -> ModelProfile:
        """Trace `model` as requested; blocks stay checkpointed."""
        request, recipe = self.request, self.recipe
        with explained("blocks(model)", recipe.name):
            units, notes = map_units(model, recipe, request.fsdp)
        parameters, buffers = parameter_infos(model, units), buffer_infos(model, units)
        traced = [
            self._trace(each, model, units, progress) for each in request.traces if not each.checkpointing
        ]
        again = [wanted for wanted in request.traces if wanted.checkpointing]
        if again and (recipe.blocks is None or not blocks_of(model, recipe.blocks)):
            notes += (NO_BLOCKS,)
        elif again:
            checkpoint_blocks(model, recipe.blocks)
            traced += [self._trace(each, model, units, progress) for each in again]
        return ModelProfile(
            source="traced",
            parameters=parameters,
            buffers=buffers,
            units=units.names,
            precision=request.precision,
            traces=tuple(one.trace for one in traced),
            train_samples=len(self.data.train),
            heldout_samples=self.data.heldout_samples,
            tokens_per_sample=_tokens_per_sample(traced),
            notes=(*notes, *dict.fromkeys(note for one in traced for note in one.notes)),
        )

    def _trace(
        self, wanted: WantedTrace, model: nn.Module, units: UnitMap, progress: Progress
    ) -> TracedMicrobatch:
        """The wanted microbatch; of several that with the highest peak."""
        batches = wanted.batches or (wanted.microbatch,)
        traced = [self._trace_batch(batch, wanted, model, units, progress) for batch in batches]
        return max(traced, key=lambda one: one.peak)

    def _trace_batch(
        self,
        batch: int | PlannedBatch,
        wanted: WantedTrace,
        model: nn.Module,
        units: UnitMap,
        progress: Progress,
    ) -> TracedMicrobatch:
        samples = batch if isinstance(batch, int) else len(batch.samples)
        progress(f"tracing {samples} samples")
        request = self.request
        weights: AbstractContextManager[object] = nullcontext()
        if wanted.cast:
            weights = gathered(model, units, gathered_dtype(DTYPES[request.precision], request.fsdp))
        holder = [self.data.batch(batch)]
        with self._tensors(), WithoutGpu(), weights:
            holder[0] = self._like(holder[0])
            return trace_microbatch(wanted, self.recipe, model, units, holder, samples, request.precision)

    def _tensors(self) -> AbstractContextManager[object]:
        return nullcontext() if self.fake is None else self.fake

    def _like(self, batch: Any) -> Any:
        """`batch` of the tensors that the model is made of."""
        if self.fake is None:
            return batch
        try:
            return tree_map_only(Tensor, self.fake.from_tensor, batch)
        except Exception as error:  # of whatever kind: torch has no rule for these
            raise ValuesNeededError(f"the batch has tensors that need their values: {error}") from error


def _tokens_per_sample(traced: list[TracedMicrobatch]) -> float | None:
    largest = max(traced, key=lambda one: one.samples, default=None)
    if largest is None or largest.tokens is None:
        return None
    return largest.tokens / largest.samples
