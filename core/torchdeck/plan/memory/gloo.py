"""What gloo's process group allocates in the course of a collective.

Measured in allocator events of real ranks (torch 2.13; the same at 2, 3 and 4): all-gather and reduce-scatter
copy through a flat buffer of their larger side; all-reduce and broadcast work in place. NCCL needs no copies.
"""

from __future__ import annotations

from torchdeck.plan.memory.spec import StrategySpec


def all_gather_copy(spec: StrategySpec, gathered: int) -> int:
    """Bytes held during an all-gather whose output is `gathered` bytes."""
    return gathered if spec.backend == "gloo" else 0


def reduce_scatter_copy(spec: StrategySpec, scattered: int) -> int:
    """Bytes held during a reduce-scatter whose input is `scattered` bytes."""
    return scattered if spec.backend == "gloo" else 0
