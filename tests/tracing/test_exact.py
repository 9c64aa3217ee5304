"""A trace without memory says what a real run allocates, to the byte."""

import numpy as np
import pytest
import torch

from support.memory.allocator_events import Allocations, real_allocations
from support.memory.traced_models import GPT, recipe_of
from torchdeck.contract.plan.model_profile import Trace
from torchdeck.distributed.fsdp_units import checkpoint_blocks
from torchdeck.distributed.rank_settings import FsdpSettings
from torchdeck.tracing.request import TraceRequest, WantedTrace
from torchdeck.tracing.tracer import trace_loaded

pytestmark = pytest.mark.long

MICROBATCH = 8
NEEDS_BF16 = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(),
    reason="without AVX-512 the kernels of convolutions have other layouts",
)


def traced(name: str, precision: str, *, checkpointing: bool = False) -> Trace:
    recipe, options = recipe_of(name)
    wanted = WantedTrace(MICROBATCH, checkpointing=checkpointing)
    request = TraceRequest(1, name, options, {}, precision, FsdpSettings(), traces=(wanted,))  # type: ignore[arg-type]
    return trace_loaded(recipe, request, lambda _: None).traces[0]


def real(name: str, precision: str, *, checkpointing: bool = False) -> Allocations:
    recipe, options = recipe_of(name)
    model = recipe.build_model(options).train()
    if checkpointing:
        checkpoint_blocks(model, recipe.blocks)
    return real_allocations(recipe, model, MICROBATCH, precision)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["byte-gpt", "byte-gpt with dropout", "tied"])
def test_peak_and_rest_equal_the_allocators(name: str, precision: str) -> None:
    """The highest total and what is left in the end, without what kernels take for themselves."""
    totals = np.cumsum(traced(name, precision).values)
    expected = real(name, precision).without_workspace
    assert (totals.max(), totals[-1]) == (max(expected), expected[-1])


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_lstm_equals_the_allocators(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without oneDNN, whose LSTM keeps until backward what only it knows the size of."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    totals = np.cumsum(traced("recurrent", precision).values)
    expected = real("recurrent", precision).without_workspace
    assert (totals.max(), totals[-1]) == (max(expected), expected[-1])


@pytest.mark.parametrize(
    ("name", "precision"),
    [("byte-gpt", "fp32"), ("byte-gpt", "bf16"), ("tied", "fp32"), ("attending", "fp32")],
)
def test_where_no_kernel_takes_more_the_whole_peak_is_equal(name: str, precision: str) -> None:
    """Every event of the allocator counted."""
    totals = np.cumsum(traced(name, precision).values)
    expected = real(name, precision).totals
    assert (totals.max(), totals[-1]) == (max(expected), expected[-1])


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("bag", "fp32"),
        ("bag", "bf16"),
        ("attending", "bf16"),
    ],
)
def test_operations_made_of_others_inside_are_close(name: str, precision: str) -> None:
    """What embedding bags and the plain attention allocate within one operation is not seen."""
    totals = np.cumsum(traced(name, precision).values)
    expected = real(name, precision).without_workspace
    assert 0.97 * max(expected) <= totals.max() <= max(expected)
    assert totals[-1] == expected[-1]


@NEEDS_BF16
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_convolutions_are_close_with_what_their_kernels_take(precision: str) -> None:
    """Without what batch norm allocates within one operation, and with one thread."""
    totals = np.cumsum(traced("convolutions", precision).values)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        expected = real("convolutions", precision).totals
    finally:
        torch.set_num_threads(threads)
    assert 0.95 * max(expected) <= totals.max() <= 1.05 * max(expected)
    assert totals[-1] == expected[-1]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_checkpointed_blocks_are_close(precision: str) -> None:
    """What is computed again is followed; only states of the random generator, one a block, are not seen."""
    totals = np.cumsum(traced("byte-gpt", precision, checkpointing=True).values)
    expected = real("byte-gpt", precision, checkpointing=True).without_workspace
    states = GPT["layers"] * torch.get_rng_state().nbytes
    assert max(expected) - states <= totals.max() <= max(expected)
    assert totals[-1] == expected[-1]
    assert totals.max() < 0.8 * np.cumsum(traced("byte-gpt", precision).values).max()
