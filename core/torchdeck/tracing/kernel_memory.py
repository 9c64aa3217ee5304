"""Memory that oneDNN's kernels take on a CPU inside an operation: copies in their own layouts, and workspace.

Sizes and order are those of allocator events of torch 2.13 (oneDNN 3.12) with AVX-512 and one thread;
`tests/tracing/test_kernel_memory.py` compares them. A convolution of contiguous tensors copies them to a
layout with channels in blocks. Two things depend on a rank's threads, which are not known here:

- With several threads the gradient of the weights takes more. The upper end of a prediction allows for it.
- 1 × 1 convolutions of fewer than 16 samples make no copies if there is only one thread. They are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Step = int | Tensor
"""One point inside an operation: bytes allocated (negative: freed), or a result that exists from now on."""

_BLOCK = 16
"""Channels of a block of fp32 and 16-bit tensors with AVX-512."""
_PLAIN_CHANNELS = 3
"""Images with so few channels are read as they are."""
_FLOAT = 4
"""Bytes per element of fp32."""
_LINE = 64
"""Bytes to which rows of recurrent layers' tensors are aligned."""
_PAGE = 4096
_ALIASED = 256
"""Elements: rows of a multiple of it are made a line longer."""
_KERNELS = (torch.float32, torch.bfloat16, torch.float16)


def steps_inside(func: Any, args: Sequence[Any], result: Any) -> list[Step]:
    """Return what the kernel of `func` allocates while it runs, in order, together with its results.

    Args:
        func: operation, as dispatched.
        args: its arguments.
        result: what it returned.
    """
    steps = _OPERATIONS.get(func)
    if steps is None or args[0].device.type != "cpu" or args[0].dtype not in _KERNELS:
        return []
    return [step for step in steps(args, result) if not isinstance(step, int) or step]


def workspace(func: Any, args: Sequence[Any]) -> int:
    """Return the bytes that an LSTM layer's forward keeps until its backward; 0 for other operations."""
    if func is not _RNN.default or not args[15]:
        return 0
    x, hidden = args[0], args[10]
    item = x.element_size()
    length, batch, inputs = x.shape
    longest = max(inputs, hidden)
    own = _rounded(hidden, item)
    states = [item * _row(longest, item), item * own, _FLOAT * _rounded(hidden, _FLOAT)]
    states += 2 * [_FLOAT * _row(longest, _FLOAT)]  # gradients of states
    parts = [2 * (length + 1) * batch * size for size in states]
    parts += [length * batch * item * _row(4 * hidden, item), length * batch * item * _row(hidden, item)]
    return sum(-(-part // _PAGE) * _PAGE for part in parts)


# Convolutions.


@dataclass(frozen=True)
class _Copies:
    """Bytes of the copies that kernels of a convolution make, each in their own layout; 0 if none is made."""

    x: int
    weight: int
    y: int
    made_x: int
    """Gradient of the input as kernels write it."""
    strided: int
    """Further copy of that gradient if the kernel moves by more than one pixel."""

    @classmethod
    def of(cls, x: Tensor, weight: Tensor, y: Tensor, stride: Sequence[int], groups: int) -> _Copies:
        """Return the copies for input `x` and output `y`; gradients of either are like them."""
        if _channels_last(x, weight):
            return cls(0, _blocked(weight), 0, 0, 0)
        inside = {x.shape[1] // groups, y.shape[1] // groups}
        one_each = groups > 1 and inside == {1}
        strided = x.nbytes if any(step > 1 for step in stride) and not one_each else 0
        if groups > 1 and not one_each and any(channels % _BLOCK for channels in inside):
            return cls(0, 0, y.nbytes, x.nbytes, strided)  # no block is filled
        return cls(_blocked(x), _blocked(weight), _blocked(y), _blocked(x), strided)


def _convolution(args: Sequence[Any], result: Any) -> list[Step]:
    x, weight, stride, groups = args[0], args[1], args[3], args[8]
    copies = _Copies.of(x, weight, result, stride, groups)
    read = 0 if groups == 1 and x.shape[1] < _BLOCK else copies.x
    return [read, copies.weight, copies.y, -copies.weight, -read, result, -copies.y]


def _convolution_backward(args: Sequence[Any], result: Any) -> list[Step]:
    y, x, weight, stride, transposed, groups = *args[:3], args[4], args[7], args[9]
    copies = _Copies.of(x, weight, y, [1] if transposed else stride, groups)
    for_input, for_weight, for_bias = result
    steps: list[Step] = []
    if for_input is not None:
        steps += [copies.y, copies.weight, copies.made_x, -copies.weight, -copies.y]
        steps += [copies.strided, for_input, -copies.made_x, -copies.strided]
    if for_weight is not None:
        few = copies.x and groups == 1 and _PLAIN_CHANNELS < x.shape[1] < _BLOCK and x.dtype == torch.float32
        came, read = (_blocked(y, _BLOCK // 2), _blocked(x, _BLOCK // 2)) if few else (copies.y, copies.x)
        read = 0 if x.shape[1] <= _PLAIN_CHANNELS else read
        summed = 0 if x.dtype == torch.float32 else weight.numel() * _FLOAT
        steps += [came, read, copies.weight, summed, -summed, -read, -came]
        steps += [made for made in (for_bias, for_weight) if made is not None]
        steps.append(-copies.weight)
    return steps


def _channels_last(x: Tensor, weight: Tensor) -> bool:
    """Return whether kernels work on channels-last tensors as they are (`mkldnn_conv_use_channels_last`)."""
    if x.dim() not in (4, 5):
        return False
    layout = _format(x)
    return any(
        tensor.is_contiguous(memory_format=layout) and not tensor.is_contiguous() for tensor in (x, weight)
    )


def _format(x: Tensor) -> torch.memory_format:
    return torch.channels_last if x.dim() == 4 else torch.channels_last_3d


def _blocked(tensor: Tensor, block: int = _BLOCK) -> int:
    """Return the bytes of a copy whose second dimension is in blocks."""
    channels = tensor.shape[1]
    return tensor.nbytes // max(1, channels) * (-(-channels // block) * block)


# LSTM layers.


def _rnn_layer(args: Sequence[Any], result: Any) -> list[Step]:
    x, hidden = args[0], args[10]
    item = x.element_size()
    row = _row(4 * hidden, item) * item
    weights = (x.shape[2] + hidden) * row
    gates = x.shape[0] * x.shape[1] * row if x.dtype == torch.float32 else 0
    bias = 4 * hidden * item
    return [*result, bias, weights, gates, -gates, -weights, -bias]


def _rnn_layer_backward(args: Sequence[Any], result: Any) -> list[Step]:
    x, hidden = args[0], args[15]
    inputs, item = x.shape[2], x.element_size()
    samples = x.shape[0] * x.shape[1]
    row = _row(4 * hidden, item) * item
    gradients = (inputs + hidden) * _row(4 * hidden, _FLOAT) * _FLOAT
    rows = _row(inputs, item) + _row(hidden, item)
    if x.dtype == torch.float32:
        copied = 4 * hidden * rows * item if rows != inputs + hidden else 0
        gates, whole = samples * row, 0
    else:
        copied, gates = 4 * hidden * rows * item, 0
        whole = (samples + 2 * x.shape[1]) * hidden * _FLOAT  # fp32 copies of the gradients that come in
    taken = copied + gradients + gates + whole + 8 * hidden * item
    return [*(tensor for tensor in result if tensor is not None), taken, -taken]


def _row(elements: int, item: int) -> int:
    """Return the length of a row in elements, as oneDNN's `get_good_ld` makes it."""
    length = _rounded(elements, item)
    return length + _LINE // item if length % _ALIASED == 0 else length


def _rounded(elements: int, item: int) -> int:
    line = _LINE // item
    return -(-elements // line) * line


_ATEN = torch.ops.aten
_RNN = _ATEN.mkldnn_rnn_layer
_OPERATIONS: Mapping[Any, Callable[[Sequence[Any], Any], list[Step]]] = {
    _ATEN.convolution.default: _convolution,
    _ATEN.convolution_backward.default: _convolution_backward,
    _RNN.default: _rnn_layer,
    _ATEN.mkldnn_rnn_layer_backward.default: _rnn_layer_backward,
}
