"""A profile from a shape: weights that add up, the published formula, memory that ends where it began."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.config.estimate import Estimate
from torchdeck.contract.plan.model_profile import Event, ModelProfile, Trace
from torchdeck.plan.memory.closed_form_profile import closed_form_profile
from torchdeck.plan.memory.closed_form_trace import Activations
from torchdeck.plan.memory.model_shape import ModelShape
from torchdeck.plan.memory.shape_derivation import EstimateError, derive_shape

SIX_TRACES = [(size, cast, again) for size in (4, 2) for cast in (False, True) for again in (False, True)]


def gpt(layers: int = 3, width: int = 64, heads: int = 4, context: int = 32) -> ModelShape:
    return ModelShape(
        layers, width, heads, heads, width // heads, 4 * width, 500, context,
        gated=False, layer_norm=True, positions=True, tied=True, qkv_bias=True, out_bias=True, mlp_bias=True,
        max_positions=context,
    )  # fmt: skip


def test_the_published_formula() -> None:
    """34·s·b·h + 5·a·s²·b in 16 bit with eager attention and dropout, and the norms' statistics besides."""
    shape = gpt(width=1024, heads=16, context=2048)
    batch = 4
    tokens = batch * shape.context
    block = Activations(shape, 2, eager=True, dropout=True)
    statistics = 2 * 2 * 4 * tokens
    kept = block.attention(tokens, cast=True) + block.mlp(tokens, cast=True) - statistics
    assert kept == 34 * tokens * shape.width + 5 * shape.heads * shape.context**2 * batch


@settings(deadline=None)
@given(
    layers=st.integers(1, 5),
    heads=st.sampled_from([(1, 1), (4, 2), (6, 3)]),
    gated=st.booleans(),
    tied=st.booleans(),
    eager=st.booleans(),
    precision=st.sampled_from(["fp32", "bf16"]),
)
def test_a_trace_ends_with_the_gradients_alone(
    layers: int, heads: tuple[int, int], gated: bool, tied: bool, eager: bool, precision: str
) -> None:
    """Nothing is freed that was not allocated, of no unit and no kind, and nothing stays."""
    shape = ModelShape(
        layers, 24 * heads[0], heads[0], heads[1], 24, 100, 300, 16,
        gated=gated, layer_norm=not gated, positions=not gated, tied=tied, max_positions=16,
    )  # fmt: skip
    profile = closed_form_profile(shape, precision=precision, wanted=SIX_TRACES, eager_attention=eager)
    assert sum(tensor.numel for tensor in profile.parameters) == shape.parameters
    for trace in profile.traces:
        _check_balance(profile, trace)
    first, second = (trace for trace in profile.traces if trace.cast and trace.checkpointing)
    assert np.array_equal(first.kinds, second.kinds)
    assert np.array_equal(first.units, second.units)
    assert ModelProfile.from_json(profile.to_json()).to_json() == profile.to_json()


def _check_balance(profile: ModelProfile, trace: Trace) -> None:
    item = 2 if profile.precision == "bf16" and trace.cast else 4
    for unit in range(len(profile.units)):
        gradients = trace.values[(trace.kinds == Event.GRADIENT) & (trace.units == unit)].sum()
        assert gradients == item * sum(t.numel for t in profile.parameters if t.unit == unit)
    for kind in (Event.INPUT, Event.ACTIVATION, Event.LOGITS, Event.CAST):
        alive = np.cumsum(trace.values[trace.kinds == kind])
        if len(alive):
            assert alive.min() >= 0, f"{kind.name} below zero"
            assert alive[-1] == 0, f"{kind.name} stays"
    marks = trace.kinds[trace.kinds < Event.INPUT]
    assert np.bincount(marks, minlength=5)[1:].tolist() == [len(profile.units)] * 4


@settings(deadline=None)
@given(parameters=st.integers(150_000, 3_000_000))
def test_blocks_are_scaled_to_the_count_that_was_given(parameters: int) -> None:
    """To the parameter, and said."""
    shape = gpt()
    profile = closed_form_profile(shape, precision="fp32", wanted=[(1, False, False)], parameters=parameters)
    assert sum(tensor.numel for tensor in profile.parameters) == parameters
    said = any(f"{parameters:,} were given" in note for note in profile.notes)
    assert said == (parameters != shape.parameters)
    _check_balance(profile, profile.traces[0])


def test_a_count_below_the_embeddings_is_refused() -> None:
    """No block could be that small."""
    with pytest.raises(ValueError, match="embeddings and output layer alone have"):
        closed_form_profile(gpt(), precision="fp32", wanted=[], parameters=20_000)


def test_microbatches_grow_evenly() -> None:
    """Twice the samples, twice the activations: what other microbatches are predicted from."""
    profile = closed_form_profile(gpt(), precision="bf16", wanted=[(4, True, False), (2, True, False)])
    large, small = (trace.values[trace.kinds == Event.ACTIVATION] for trace in profile.traces)
    growing = large != small
    assert np.array_equal(large[growing], 2 * small[growing])


@pytest.mark.parametrize(
    ("table", "layers", "width", "heads", "mlp_width"),
    [
        ({"parameters": 6.74e9}, 32, 4096, 32, 11008),
        ({"parameters": 6.74e9, "width": 4096}, 32, 4096, 32, 11008),
        ({"parameters": 6.74e9, "layers": 32}, 32, 4096, 32, 11008),
        ({"architecture": "gpt2", "layers": 12, "width": 768, "heads": 12}, 12, 768, 12, 3072),
        ({"parameters": 1e6, "vocabulary": 256, "tie_weights": True}, 2, 256, 2, 768),
    ],
)
def test_what_is_left_out_is_derived_and_said(
    table: dict[str, object], layers: int, width: int, heads: int, mlp_width: int
) -> None:
    """Llama-2-7B comes out of its count alone."""
    derived = derive_shape(Estimate.model_validate(table))
    shape = derived.shape
    assert (shape.layers, shape.width, shape.heads, shape.mlp_width) == (layers, width, heads, mlp_width)
    assert len(derived.notes) == 1
    assert "mlp_width = " in derived.notes[0]


def test_numbers_that_fit_no_model_are_refused() -> None:
    """Said with what would be right."""
    with pytest.raises(EstimateError, match="layers and width follow from parameters"):
        derive_shape(Estimate(layers=3))
    with pytest.raises(EstimateError, match="7 heads do not divide a width of 64"):
        derive_shape(Estimate(layers=3, width=64, heads=7))
    with pytest.raises(EstimateError, match="kv_heads must divide heads"):
        derive_shape(Estimate(layers=3, width=64, heads=4, kv_heads=3))
    with pytest.raises(EstimateError, match=r"estimate\.config cannot be used: model_type 'bert'"):
        derive_shape(Estimate(config="/x/config.json"), {"model_type": "bert"})


def test_what_is_written_holds_before_the_file() -> None:
    """A shorter context than the model's longest, and another number of layers."""
    file = {
        "model_type": "gpt2",
        "n_embd": 64,
        "n_layer": 2,
        "n_head": 4,
        "vocab_size": 100,
        "n_positions": 512,
    }
    derived = derive_shape(Estimate(config="/x/config.json", context=128, layers=5), file)
    assert (derived.shape.context, derived.shape.layers, derived.notes) == (128, 5, ())
    assert ("positions.weight", (512, 64)) in derived.shape.before_blocks()
    whole = derive_shape(Estimate(config="/x/config.json"), file)
    assert whole.shape.context == 512
    assert "context = 512" in whole.notes[0]
