"""The local part of a tensor on this rank."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor


def local_part(tensor: Tensor) -> Tensor:
    """Return this rank's shard of a sharded tensor, otherwise the tensor itself; it shares memory with
    `tensor`.
    """
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


# Checksums of tensors by their bits: exact, the same on any device, and without a copy of the tensor.

_COLUMNS = 1024
_ROWS = 1024
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_ROW_FACTOR, _COLUMN_FACTOR, _NEXT = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
"""Odd numbers (primes that xxHash uses), so that no bit of what they multiply is lost modulo 2⁶⁴."""


def checksum(tensor: Tensor) -> Tensor:
    """Return a 64-bit sum over the bits of `tensor`'s elements, shape () on its device, without waiting for
    it.

    Elements are laid out in rows of 1024. Each row's sum is weighted by its number, each column's by its own,
    in whole numbers modulo 2⁶⁴. The order of addition changes nothing. One differing element always changes
    the sum, and swapped elements almost surely do. Needs memory for a million elements in addition to the
    tensor.
    """
    with torch.no_grad():
        bits = _as_bits(tensor)
        total = torch.zeros((), dtype=torch.int64, device=bits.device)
        for block in torch.split(bits, _ROWS * _COLUMNS):
            total = total * _NEXT + _block(block.to(torch.int64))
    return total


def _as_bits(tensor: Tensor) -> Tensor:
    flat = tensor.detach().contiguous().reshape(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    return flat if flat.dtype == torch.bool else flat.view(_BITS[flat.element_size()])


def _block(values: Tensor) -> Tensor:
    whole = len(values) // _COLUMNS * _COLUMNS
    table, tail = values[:whole].view(-1, _COLUMNS), values[whole:]
    numbers = torch.arange(1, 1 + max(_ROWS, _COLUMNS), dtype=torch.int64, device=values.device)
    rows = (table.sum(1) * (numbers[: len(table)] * 2 * _ROW_FACTOR + 1)).sum()
    columns = (table.sum(0) * (numbers[:_COLUMNS] * 2 * _COLUMN_FACTOR + 1)).sum()
    return rows + columns + (tail * (numbers[: len(tail)] * 2 * _COLUMN_FACTOR + _NEXT)).sum()
