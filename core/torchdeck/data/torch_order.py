"""torch.randperm without torch: the permutation its CPU generator gives for a seed.

The generator is MT19937 (Matsumoto & Nishimura, ACM TOMACS 8(1), 1998), seeded by the low 32 bits of the seed
as in the authors' `init_genrand` of 2002; torch's shuffle (`randperm_cpu` in ATen/native/TensorFactories.cpp)
is a Fisher–Yates forward from position 0, and from 2³²/20 elements on the "inside-out" one with 64 bits a
draw. Only raw bits of numpy's MT19937 are used, so no numpy version changes the result.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from torchdeck.data.order import Ids

SWITCH = (2**32 - 1) // 20
"""Elements from which torch shuffles inside-out; torch 2.10 and newer."""

_CHUNK = 1 << 20
_SMALLEST_BLOCK = 32


def torch_permutation(size: int, seed: int) -> Ids:
    """What `torch.randperm(size, generator=torch.Generator().manual_seed(seed))` is on a CPU, shape (size,).

    Raises:
        ValueError: size is negative, or seed is one that torch refuses.
    """
    if size < 0:
        raise ValueError(f"a permutation of {size} elements is none: right is a size from 0")
    if not -(1 << 63) <= seed < 1 << 64:
        raise ValueError(f"seed {seed} is out of range: it must be from -2**63 to 2**64 - 1")
    generator = _seeded(seed & 0xFFFFFFFF)
    partners = _forward_partners if size < SWITCH else _inside_out_partners
    values = np.arange(size, dtype=np.int64)
    position = 0
    for chunk in partners(generator, size):
        _swap_in_order(values, position, chunk)
        position += len(chunk)
    return values


def _seeded(seed: int) -> np.random.MT19937:
    key = [seed]
    for index in range(1, 624):
        key.append((1812433253 * (key[-1] ^ key[-1] >> 30) + index) & 0xFFFFFFFF)
    generator = np.random.MT19937(0)
    generator.state = {
        "bit_generator": "MT19937",
        "state": {"key": np.array(key, dtype=np.uint32), "pos": 624},
    }
    return generator


def _forward_partners(generator: np.random.MT19937, size: int) -> Iterator[npt.NDArray[np.int64]]:
    """With which position 0, 1, … is exchanged: itself or a later one; 32 bits."""
    for start in range(0, size - 1, _CHUNK):
        positions = np.arange(start, min(start + _CHUNK, size - 1), dtype=np.int64)
        draws = generator.random_raw(len(positions)).astype(np.int64)
        yield positions + draws % (size - positions)


def _inside_out_partners(generator: np.random.MT19937, size: int) -> Iterator[npt.NDArray[np.int64]]:
    """With which position 0, 1, … is exchanged: itself or an earlier one; 64 bits, high half first."""
    for start in range(0, size, _CHUNK):
        stop = min(start + _CHUNK, size)
        halves = generator.random_raw(2 * (stop - start))
        draws = halves[0::2] << np.uint64(32) | halves[1::2]
        yield (draws % np.arange(start + 1, stop + 1, dtype=np.uint64)).astype(np.int64)


def _swap_in_order(values: Ids, first: int, partners: npt.NDArray[np.int64]) -> None:
    """Exchange values[first + k] with values[partners[k]], for k = 0, 1, … one after the other.

    A block whose positions and partners are all different can be exchanged at once; blocks grow while that
    goes well (to about the root of the range, by the birthday paradox) and shrink where it does not.
    """
    done, block = 0, 1024
    while done < len(partners):
        chosen = partners[done : done + block]
        start = first + done
        if _independent(chosen, start):
            own = values[start : start + len(chosen)].copy()
            values[start : start + len(chosen)] = values[chosen]
            values[chosen] = own
            done += len(chosen)
            block += block // 8
        elif block > _SMALLEST_BLOCK:
            block //= 2
        else:
            _swap_one_by_one(values, start, chosen)
            done += len(chosen)
            block += block // 8


def _independent(partners: npt.NDArray[np.int64], start: int) -> bool:
    ordered = np.sort(partners)
    inside = np.searchsorted(ordered, (start, start + len(partners)))
    return bool(inside[0] == inside[1]) and not bool((ordered[1:] == ordered[:-1]).any())


def _swap_one_by_one(values: Ids, start: int, partners: npt.NDArray[np.int64]) -> None:
    for own, partner in enumerate(partners.tolist(), start):
        values[own], values[partner] = values[partner], values[own]
