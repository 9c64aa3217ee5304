"""Memory of oneDNN's kernels: what a trace counts without running them, and what the allocator reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from support.memory.allocator_events import real_totals
from torchdeck.tracing.kernel_memory import workspace
from torchdeck.tracing.storages import Change, StorageLog
from torchdeck.tracing.tracer import fake_building

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="the layouts are those of AVX-512"
    ),
]

Made = Callable[[], tuple[nn.Module, Tensor]]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Several threads take more, which depends on the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def run(module: nn.Module, x: Tensor) -> None:
    returned = module(x)
    (returned[0] if isinstance(returned, tuple) else returned).square().sum().backward()


def traced(make: Made) -> tuple[int, int]:
    """Peak of a run without memory, and the same without kernels."""
    with FakeTensorMode(), fake_building():
        module, x = make()
        log = StorageLog()
        for parameter in module.parameters():
            log.number(parameter)
        log.number(x)
        with log:
            run(module, x)
        changes = [entry for entry in log.entries if isinstance(entry, Change)]
    whole = max(accumulate(change.size for change in changes))
    return whole, max(accumulate(c.size for c in changes if c.storage not in log.kernels))


def made(
    kind: Any,
    shape: tuple[int, ...],
    channels: int,
    kernel: int,
    dtype: torch.dtype = torch.float32,
    **more: int,
) -> Made:
    """A layer from `shape` to `channels`; images of three channels need no gradient."""

    def make() -> tuple[nn.Module, Tensor]:
        layer = nn.Sequential(kind(shape[1], channels, kernel, **more)).to(dtype)
        return layer, torch.zeros(shape, dtype=dtype, requires_grad=shape[1] > 3)

    return make


CONVOLUTIONS = {
    "first layer": made(nn.Conv2d, (16, 3, 28, 28), 32, 3),
    "usual": made(nn.Conv2d, (16, 32, 28, 28), 64, 3),
    "large weights": made(nn.Conv2d, (8, 256, 7, 7), 256, 3),
    "strided": made(nn.Conv2d, (16, 64, 28, 28), 64, 3, stride=2),
    "to few channels": made(nn.Conv2d, (16, 32, 28, 28), 1, 3),
    "odd groups": made(nn.Conv2d, (8, 20, 33, 33), 16, 3, groups=4),
    "one channel each": made(nn.Conv2d, (8, 32, 28, 28), 32, 3, groups=32),
    "series": made(nn.Conv1d, (16, 48, 200), 32, 5),
    "volume": made(nn.Conv3d, (8, 16, 9, 9, 9), 32, 3),
    "transposed": made(nn.ConvTranspose2d, (8, 32, 14, 14), 16, 2, stride=2),
    "bf16": made(nn.Conv2d, (24, 64, 28, 28), 96, 3, torch.bfloat16),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_takes_what_is_traced(name: str) -> None:
    """Within 4 % of the allocator's peak for forward and backward of a single layer."""
    module, x = CONVOLUTIONS[name]()
    real = max(real_totals(lambda: run(module, x)))
    whole, _ = traced(CONVOLUTIONS[name])
    assert 0.96 * real <= whole <= 1.04 * real


def test_without_kernels_much_of_a_convolution_is_missing() -> None:
    """The reason to count them."""
    whole, alone = traced(CONVOLUTIONS["strided"])
    assert alone < 0.6 * whole


def test_channels_last_tensors_are_not_copied() -> None:
    """Kernels read and write them as they are."""

    def make() -> tuple[nn.Module, Tensor]:
        module, x = CONVOLUTIONS["usual"]()
        layout = torch.channels_last
        return module.to(memory_format=layout), x.detach().contiguous(memory_format=layout).requires_grad_()  # type: ignore[call-overload]  # torch's stubs lack it

    module, x = make()
    real = max(real_totals(lambda: run(module, x)))
    assert traced(make)[0] == pytest.approx(real, rel=0.04)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("inputs", "hidden"), [(64, 64), (64, 128), (256, 128), (100, 100), (96, 512)])
def test_an_lstm_keeps_the_workspace_that_is_counted(inputs: int, hidden: int, dtype: torch.dtype) -> None:
    """Within 6 %, and never 2 % less, for rows that need padding and rows that do not."""
    layer, state = nn.LSTM(inputs, hidden).to(dtype), torch.zeros(32, hidden, dtype=dtype)
    weights = [tensor.detach() for tensor in layer.parameters()]
    x = torch.zeros(20, 32, inputs, dtype=dtype)
    operation = torch.ops.aten.mkldnn_rnn_layer.default
    args = (x, *weights, state, state, False, [], 2, hidden, 1, True, False, False, True)
    real = operation(*args)[-1].nbytes
    assert 0.98 * real <= workspace(operation, args) <= 1.06 * real


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("hidden", [128, 256])
def test_an_lstm_takes_what_is_traced(hidden: int, dtype: torch.dtype) -> None:
    """Its peak over forward and backward, with workspace."""

    def make() -> tuple[nn.Module, Tensor]:
        return nn.LSTM(64, hidden).to(dtype), torch.zeros(20, 32, 64, dtype=dtype, requires_grad=True)

    module, x = make()
    real = max(real_totals(lambda: run(module, x)))
    whole, alone = traced(make)
    assert 0.95 * real <= whole <= 1.05 * real
    assert alone < 0.6 * real
