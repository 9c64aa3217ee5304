"""What a trace says of each allocation: its kind and unit, and where forward and backward of units lie."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from torch import nn

from support.memory.traced_models import GPT, recipe_of
from torchdeck.contract.plan.model_profile import ROOT, Event, ModelProfile, Trace
from torchdeck.distributed.rank_settings import FsdpSettings
from torchdeck.tracing.request import TraceRequest, WantedTrace
from torchdeck.tracing.tracer import trace_loaded

pytestmark = pytest.mark.long

MICROBATCH = 4
BEGINS = {Event.FORWARD_BEGIN, Event.BACKWARD_BEGIN}


def profile_of(name: str, precision: Any = "bf16", fsdp: FsdpSettings | None = None) -> ModelProfile:
    recipe, options = recipe_of(name)
    wanted = (
        WantedTrace(MICROBATCH),
        WantedTrace(MICROBATCH, cast=True),
        WantedTrace(MICROBATCH, checkpointing=True),
    )
    request = TraceRequest(1, name, options, {}, precision, fsdp or FsdpSettings(), traces=wanted)
    return trace_loaded(recipe, request, lambda _: None)


def allocated(trace: Trace, kind: Event, unit: int | None = None) -> int:
    chosen = (trace.kinds == kind) & (trace.values > 0)
    return int(trace.values[chosen if unit is None else chosen & (trace.units == unit)].sum())


def marks(trace: Trace) -> list[tuple[Event, int]]:
    rows = zip(trace.kinds.tolist(), trace.units.tolist(), strict=True)
    return [(Event(kind), unit) for kind, unit in rows if kind <= Event.BACKWARD_END]


@pytest.fixture(scope="module")
def gpt() -> ModelProfile:
    return profile_of("byte-gpt")


def test_tensors_and_units_are_the_models(gpt: ModelProfile) -> None:
    """Names, shapes and units as the model has them."""
    model = recipe_of("byte-gpt")[0].build_model(GPT)
    assert [(info.name, info.shape) for info in gpt.parameters] == [
        (name, tuple(parameter.shape)) for name, parameter in model.named_parameters()
    ]
    assert gpt.units == ("", "blocks.0", "blocks.1")
    assert all(info.name.startswith(f"{gpt.units[info.unit]}.") for info in gpt.parameters if info.unit)
    assert gpt.tokens_per_sample == GPT["context"]


def test_each_unit_goes_forward_and_back_once(gpt: ModelProfile) -> None:
    """Forward in order, backward in the opposite one, the root around all."""
    forward = [(Event.FORWARD_BEGIN, 0)]
    forward += [(kind, unit) for unit in (1, 2) for kind in (Event.FORWARD_BEGIN, Event.FORWARD_END)]
    backward = [(Event.BACKWARD_BEGIN, 0)]
    backward += [(kind, unit) for unit in (2, 1) for kind in (Event.BACKWARD_BEGIN, Event.BACKWARD_END)]
    for trace in gpt.traces:
        expected = [*forward, (Event.FORWARD_END, 0), *backward, (Event.BACKWARD_END, 0)]
        assert marks(trace) == expected


def test_gradients_are_as_large_as_weights(gpt: ModelProfile) -> None:
    """By unit; half of it where weights came in bf16; and all else was freed."""
    weights = [sum(info.size for info in gpt.parameters if info.unit == unit) for unit in range(3)]
    plain, cast, again = gpt.traces
    for unit, size in enumerate(weights):
        assert allocated(plain, Event.GRADIENT, unit) == size
        assert allocated(cast, Event.GRADIENT, unit) == size // 2
        assert allocated(again, Event.GRADIENT, unit) == size
    assert plain.values.sum() == sum(weights)
    assert cast.values.sum() == sum(weights) // 2


def test_copies_are_autocasts(gpt: ModelProfile) -> None:
    """Every linear layer's weight and bias once; again where blocks are; none where weights came cast."""
    model = recipe_of("byte-gpt")[0].build_model(GPT)
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    size = sum(parameter.nbytes for module in linear for parameter in module.parameters()) // 2
    head = model.head.weight.nbytes // 2
    plain, cast, again = gpt.traces
    assert allocated(plain, Event.CAST) == size
    assert allocated(plain, Event.CAST, ROOT) == head
    assert allocated(cast, Event.CAST) == 0
    assert allocated(again, Event.CAST) == 2 * size - head


def test_batch_and_logits_are_told_apart(gpt: ModelProfile) -> None:
    """The batch is two of int64; logits come in bf16, are cast, and log-softmax keeps its result."""
    tokens = MICROBATCH * GPT["context"]
    for trace in gpt.traces:
        assert allocated(trace, Event.INPUT) == 2 * tokens * 8
        assert allocated(trace, Event.LOGITS) >= tokens * 256 * (2 + 4 + 4)


@pytest.mark.parametrize("name", ["convolutions", "tied", "recurrent", "bag", "attending"])
@pytest.mark.parametrize("least", [64, 10**9])
def test_every_kind_of_model_has_whole_marks(name: str, least: int) -> None:
    """No total below zero; marks of a unit come in pairs, the root's first and last."""
    profile = profile_of(name, fsdp=FsdpSettings(wrap="size", min_params=least))
    assert (len(profile.units) > 1) == (least == 64)
    trained = sum(info.size for info in profile.parameters if info.trainable and "unused" not in info.name)
    for trace in profile.traces:
        assert np.cumsum(trace.values).min() >= 0
        assert trace.values.sum() == (trained // 2 if trace.cast else trained)
        found = marks(trace)
        for unit in range(len(profile.units)):
            mine = [kind for kind, owner in found if owner == unit]
            assert all((a in BEGINS) != (b in BEGINS) for a, b in pairwise(mine))
        assert found[0] == (Event.FORWARD_BEGIN, ROOT)
        assert found[-1] == (Event.BACKWARD_END, ROOT)


def test_tied_frozen_and_unused_weights() -> None:
    """A shared weight stands once and in the root; frozen ones and buffers are said to be; types are kept."""
    tied = {
        info.name: info
        for info in profile_of("tied", fsdp=FsdpSettings(wrap="size", min_params=64)).parameters
    }
    assert "other.weight" not in tied
    assert tied["layer.weight"].unit == ROOT
    assert "unused.weight" in tied
    profile = profile_of("convolutions")
    assert [note for note in profile.notes if "workspace" in note]
    assert [info.name for info in profile.parameters if not info.trainable] == ["stem.weight", "stem.bias"]
    assert {(info.name, info.dtype) for info in profile.buffers} >= {
        ("stage.1.running_mean", "float32"),
        ("stage.1.num_batches_tracked", "int64"),
    }
