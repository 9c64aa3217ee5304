"""Other libraries' names of arguments, accepted next to the documented ones.

Each table is for `arguments(also=…)`; the TypedDict with it tells type checkers.
"""

from __future__ import annotations

from typing import TypedDict

MICROBATCH = {"batch_size": "microbatch"}
BATCH_SIZE = {"microbatch": "batch_size"}
ACCUMULATION = {"gradient_accumulation_steps": "accumulation"}
MAX_NORM = {"clip": "max_norm"}
SAMPLER = {"dataset_size": "dataset", "world_size": "num_replicas"}
TRAINER = {
    **ACCUMULATION,
    "learning_rate": "lr",
    "max_norm": "clip",
    "num_workers": "workers",
}


class MicrobatchSpelling(TypedDict, total=False):
    """See MICROBATCH."""

    batch_size: int


class BatchSizeSpelling(TypedDict, total=False):
    """See BATCH_SIZE."""

    microbatch: int


class AccumulationSpelling(TypedDict, total=False):
    """See ACCUMULATION."""

    gradient_accumulation_steps: int


class MaxNormSpelling(TypedDict, total=False):
    """See MAX_NORM."""

    clip: float | None


class SamplerSpelling(TypedDict, total=False):
    """See SAMPLER."""

    dataset_size: int
    world_size: int
