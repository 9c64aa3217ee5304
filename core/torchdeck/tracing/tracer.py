"""Traces a recipe: builds its model without memory, and records the allocations of forward and backward."""

from __future__ import annotations

import itertools
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.data import default_collate

from torchdeck.contract.plan.model_profile import NO_BLOCKS, ModelProfile
from torchdeck.data.step_order import Layout
from torchdeck.distributed.batches import SizedDataset, takes_layout
from torchdeck.distributed.fsdp_units import blocks_of, checkpoint_blocks
from torchdeck.distributed.group.process_group import ProcessGroup
from torchdeck.distributed.precision import DTYPES
from torchdeck.distributed.rank_settings import FsdpSettings
from torchdeck.distributed.recipe_loading import Recipe, RecipeError, RecipeImportError, load_recipe
from torchdeck.distributed.seeding import seed_all
from torchdeck.distributed.trainer.setup import build_heldout_data, build_model, build_training_data
from torchdeck.distributed.trainer.training_data import check_collate
from torchdeck.environment import Place
from torchdeck.tracing.counted import Counted, Progress, ended, modules_counted
from torchdeck.tracing.faults import TracingError, ValuesNeededError, WithoutGpu, explained, import_fault
from torchdeck.tracing.microbatch import TracedMicrobatch, trace_microbatch
from torchdeck.tracing.parameter_units import UnitMap, buffer_infos, check_tensors, map_units, parameter_infos
from torchdeck.tracing.request import PlannedBatch, TraceRequest, WantedTrace

# Data set of a recipe, for its size and the shapes of a batch; its content is not kept.

_TIMEOUT = 60.0
_LEAST_BYTES = 64
"""Memory of the smallest Python object in a list."""


@dataclass(frozen=True)
class TracingData:
    """Data of a recipe as a rank would build it."""

    recipe: Recipe
    train: SizedDataset
    heldout_samples: int | None
    """None if nothing is evaluated or held out."""

    def batch(self, wanted: int | PlannedBatch, progress: Progress = lambda _text: None) -> Any:
        """Return that many samples from the first on (repeated if there are fewer), or those of a plan, as a
        batch.

        Raises:
            RecipeError, TracingError: a sample is missing, cannot be read, or does not fit the others, or
                they do not fit into memory.
        """
        size = len(self.train)
        layout: Layout | None = None
        ids: Sequence[int]
        if isinstance(wanted, int):
            ids = range(wanted)  # none of them is stored: there may be a billion
        else:
            ids, layout = wanted.samples, Layout(wanted.max_len, wanted.row_sizes)
            if max(ids) >= size:
                raise RecipeError(
                    f"the batch plan names sample {max(ids)}, and the data has {size}: build the plan for "
                    "this data"
                )
        collate: Callable[..., Any] = self.recipe.collate or default_collate
        with explained("reading samples", self.recipe.name):
            samples = self._samples(ids, size, progress)
        with explained("collate(samples)" if self.recipe.collate else "collating", self.recipe.name):
            return collate(samples, layout=layout) if takes_layout(collate) else collate(samples)

    def _samples(self, ids: Sequence[int], size: int, progress: Progress) -> list[Any]:
        samples: list[Any] = []
        counted, most = Counted(progress, "reading samples:", len(ids)), 0
        for number, sample in enumerate(ids):
            samples.append(self.train[sample % size])
            counted.reached(number)
            if number == 0:
                most = max(1, available_memory() // _bytes_of(samples[0]))
            if number == 0 and len(ids) > most:
                raise TracingError(
                    f"a microbatch of {len(ids):,} samples does not fit into memory here, which has room for "
                    f"{most:,}: lower training.microbatch"
                )
        return samples


def _bytes_of(sample: Any) -> int:
    """Return the memory of a sample, at least that of the smallest object."""
    leaves = tree_leaves(sample)
    return sum(max(_LEAST_BYTES, int(getattr(leaf, "nbytes", 0))) for leaf in leaves) or _LEAST_BYTES


def open_data(recipe: Recipe, request: TraceRequest) -> TracingData:
    """Return the data that `request` names.

    Raises:
        RecipeError, TracingError: it cannot be read, is not a data set, or its batches cannot be created.
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


def trace_recipe(request: TraceRequest, progress: Progress) -> ModelProfile:
    """Return the profile that `request` asks for.

    Raises:
        RecipeError, TracingError: the recipe cannot be traced; the message has the reason.
    """
    progress("loading the recipe")
    try:
        with explained("the import", request.recipe, as_in_ranks=True):
            recipe = load_recipe(request.recipe)
    except RecipeImportError as error:
        raise import_fault(error, request.recipe) from error
    return trace_loaded(recipe, request, progress)


def trace_loaded(recipe: Recipe, request: TraceRequest, progress: Progress) -> ModelProfile:
    """Same as `trace_recipe`, for a recipe whose functions are already loaded.

    A model whose construction depends on values is built with real memory, and traced without. If the loss
    depends on values, a model of up to 200M parameters is traced with real memory too.
    """
    progress("reading the data")
    data = open_data(recipe, request)
    progress("building the model")
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    tracer = _Tracer(recipe, request, data, fake)
    real = replace(tracer, fake=None)
    try:
        model = tracer.build(progress)
    except ValuesNeededError:
        progress("building the model with real memory")
        with bounded_memory():
            model = real.build(progress)
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
        profile = tracer.profile(tracer.build(progress), progress)
    note = f"traced with real tensors, as shapes may depend on values: {reason}"
    return replace(profile, notes=(*profile.notes, note))


@dataclass(frozen=True)
class _Tracer:
    """Recipe with its data and the kind of tensors of its model."""

    recipe: Recipe
    request: TraceRequest
    data: TracingData
    fake: FakeTensorMode | None
    """None: real tensors."""

    def build(self, progress: Progress) -> nn.Module:
        """Build the model, ready to train."""
        seed_all(self.request.seed)
        building = nullcontext() if self.fake is None else fake_building()
        own = explained("build_model(options)", self.recipe.name, as_in_ranks=True)
        counting = modules_counted(progress)
        with self._tensors(), building, WithoutGpu(), own, counting:
            model = build_model(self.recipe, self.request.model).train()
        check_tensors(model)
        return model

    def profile(self, model: nn.Module, progress: Progress) -> ModelProfile:
        """Trace `model` as requested; blocks stay checkpointed."""
        request, recipe = self.request, self.recipe
        with explained("blocks(model)", recipe.name):
            units, notes = map_units(model, recipe, request.fsdp)
        parameters, buffers = parameter_infos(model, units), buffer_infos(model, units)
        numbers, total = itertools.count(1), len(request.traces)

        def traces(some: Sequence[WantedTrace]) -> Iterator[TracedMicrobatch]:
            for each, number in zip(some, numbers, strict=False):
                yield self._trace(each, model, units, ended(progress, f", trace {number} of {total}"))

        traced = list(traces([wanted for wanted in request.traces if not wanted.checkpointing]))
        again = [wanted for wanted in request.traces if wanted.checkpointing]
        if again and (recipe.blocks is None or not blocks_of(model, recipe.blocks)):
            notes += (NO_BLOCKS,)
        elif again:
            checkpoint_blocks(model, recipe.blocks)
            traced += traces(again)
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
        """Trace the requested microbatch; of several, the one with the highest peak."""
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
        progress(f"{samples:,} samples")
        request = self.request
        weights: AbstractContextManager[object] = nullcontext()
        if wanted.cast:
            weights = gathered(model, units, gathered_dtype(DTYPES[request.precision], request.fsdp))
        holder = [self.data.batch(batch, progress)]
        with self._tensors(), WithoutGpu(), weights:
            holder[0] = self._like(holder[0])
            counted = Counted(progress, f"{samples:,} samples, unit", len(units.names))
            return trace_microbatch(
                wanted, self.recipe, model, units, holder, samples, request.precision, counted
            )

    def _tensors(self) -> AbstractContextManager[object]:
        return nullcontext() if self.fake is None else self.fake

    def _like(self, batch: Any) -> Any:
        """Convert `batch` to the model's kind of tensors."""
        if self.fake is None:
            return batch
        try:
            return tree_map_only(Tensor, self.fake.from_tensor, batch)
        except Exception as error:  # of any type: torch has no rule for these
            raise ValuesNeededError(f"the batch has tensors that need their values: {error}") from error


def _tokens_per_sample(traced: list[TracedMicrobatch]) -> float | None:
    largest = max(traced, key=lambda one: one.samples, default=None)
    if largest is None or largest.tokens is None:
        return None
    return largest.tokens / largest.samples


# Memory limit for traces that need real tensors.

MAX_PARAMETERS = 200_000_000
"""Maximum parameters of models traced with real tensors if tensors without memory are not enough."""
MAX_BYTES = 8 * 2**30
"""Maximum memory for that building and tracing, and at most half of what is available."""

_STATUS = Path("/proc/self/status")
_MEMINFO = Path("/proc/meminfo")


@contextmanager
def bounded_memory(size: int = MAX_BYTES) -> Iterator[None]:
    """Make allocations fail beyond `size` bytes more than this process has, or half of the machine's free
    memory, to avoid swapping.
    """
    before = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _kilobytes(_STATUS, "VmData", 0) + available_memory(size)
    if before[1] != resource.RLIM_INFINITY:
        wanted = min(wanted, before[1])
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def available_memory(most: int = MAX_BYTES) -> int:
    """Return half of the machine's free memory in bytes, at most `most`."""
    return min(most, _kilobytes(_MEMINFO, "MemAvailable", 2 * most) // 2)


def _kilobytes(file: Path, wanted: str, default: int) -> int:
    """Return the value of a line like `VmData: 5 kB` in bytes; `default` if there is none."""
    for line in file.read_text(encoding="ascii", errors="replace").splitlines():
        name, _, rest = line.partition(":")
        if name == wanted:
            return int(rest.split()[0]) * 1024
    return default


# Weights in the dtype in which FSDP gathers them, as seen by a forward under its mixed precision.


def gathered_dtype(precision: torch.dtype, options: FsdpSettings) -> torch.dtype:
    """Return the dtype in which FSDP gathers weights."""
    return precision if options.param_dtype == "auto" else DTYPES[options.param_dtype]


@contextmanager
def gathered(model: nn.Module, units: UnitMap, dtype: torch.dtype) -> Iterator[None]:
    """Convert `model` as for a forward under FSDP: floating-point weights in `dtype`, and inputs of a unit
    cast to it (MixedPrecisionPolicy's cast_forward_inputs). Undone afterwards; gradients are dropped.
    """

    def cast(_: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        return tree_map_only(Tensor, _cast, args), tree_map_only(Tensor, _cast, kwargs)

    def _cast(tensor: Tensor) -> Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    before = {parameter: parameter.data for parameter in model.parameters() if parameter.is_floating_point()}
    handles = [
        module.register_forward_pre_hook(cast, prepend=True, with_kwargs=True) for module in units.modules
    ]
    try:
        for parameter, data in before.items():
            parameter.grad = None
            parameter.data = data.to(dtype)
        yield
    finally:
        for handle in handles:
            handle.remove()
        for parameter, data in before.items():
            parameter.grad = None
            parameter.data = data


# Models without memory: operations that torch does not allow on fake tensors during construction, and
# workarounds.


@contextmanager
def fake_building() -> Iterator[None]:
    """Allow two more operations when building models of fake tensors, as with tensors on the meta device.

    `model.to(…)`, `.half()` and the like would swap fake parameters for others, which torch refuses for any
    with weak references. And `trunc_normal_` redraws values outside of its bounds until there are none (since
    torch 2.13), which a tensor without values cannot decide.
    """
    with ExitStack() as restored:
        for owner, name, placeholder_node in (
            (torch.utils, "swap_tensors", _set_data),
            (nn.init, "_no_grad_trunc_normal_", _left_as_it_is),
        ):
            if hasattr(owner, name):
                restored.callback(setattr, owner, name, getattr(owner, name))
                setattr(owner, name, placeholder_node)
        yield


def forget_values(model: nn.Module, fake: FakeTensorMode) -> None:
    """Replace each parameter and buffer of `model` by a fake tensor; a shared one stays shared."""
    made: dict[Tensor, Tensor] = {}
    for module in model.modules():
        own = (module.named_parameters(recurse=False, remove_duplicate=False),
               module.named_buffers(recurse=False, remove_duplicate=False))  # fmt: skip
        for name, tensor in [item for items in own for item in items]:
            if tensor not in made:
                made[tensor] = fake.from_tensor(tensor)
            setattr(module, name, made[tensor])  # not into its dict: an LSTM keeps a list of its own


def _set_data(parameter: Tensor, other: Tensor) -> None:
    parameter.data = other.detach()


def _left_as_it_is(tensor: Tensor, *_: Any, **__: Any) -> Tensor:
    return tensor
