"""Sizes with which a run with a range continues after losing ranks, as lines and as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchdeck.contract.plan.launch_plan import LaunchPlan, SmallerSize
from torchdeck.plan.memory.fullness import MemoryPreview, make_memory
from torchdeck.plan.preview.headline import verdict_line

SHOWN = 8
"""Largest number of sizes shown; beyond it the largest and the smallest."""


def size_lines(plan: LaunchPlan) -> list[str]:
    """Return a line per size, most ranks first; none without a range."""
    if not plan.smaller:
        return []
    sizes = list(plan.smaller)
    lines = [_line(plan, size) for size in sizes]
    if len(lines) > SHOWN:
        lines[SHOWN - 1 : -1] = [f"⋮ and {len(lines) - SHOWN:,} more"]
    return ["where a rank is lost for good, the run continues from its newest checkpoint with", *lines]


def size_values(plan: LaunchPlan) -> Iterator[dict[str, Any]]:
    """Yield the sizes as plain values, most ranks first."""
    for size in plan.smaller:
        memory = _memory(size)
        yield {
            "nodes": size.nodes,
            "nproc": size.nproc,
            "world_size": size.world_size,
            "accumulation": size.batch and size.batch.accumulation,
            "global_batch": size.batch and size.batch.global_batch,
            "lr": size.batch and size.batch.scaled_lr,
            "verdict": memory and memory.verdict,
            "peak_bytes": memory and memory.decisive.peak_bytes,
            "warnings": list(size.warnings),
        }


def _line(plan: LaunchPlan, size: SmallerSize) -> str:
    """Return `2 ranks: global batch 4 × 3 × 2 = 24 samples; fits: 3.1 GiB of 80.0 GiB, 4 %`."""
    parts = [f"{size.world_size:,} rank{'' if size.world_size == 1 else 's'}"]
    if len(plan.nodes) > 1:
        parts[0] += f" ({size.nodes:,} × {size.nproc:,})"
    batch = size.batch
    if batch is not None:
        mean = isinstance(batch.microbatch, float)
        arithmetic = f"{batch.microbatch:.6g} × {batch.accumulation} × {batch.world_size:,}"
        parts[0] += f": global batch {arithmetic} {'≈' if mean else '='} {batch.global_batch:,} samples"
        if plan.batch is not None and batch.scaled_lr != plan.batch.scaled_lr:
            parts.append(f"lr {batch.scaled_lr:g}")
    memory = _memory(size)
    if memory is not None:
        parts.append(verdict_line(memory))
    return "; ".join(parts)


def _memory(size: SmallerSize) -> MemoryPreview | None:
    return None if size.prediction is None else make_memory(size.prediction)
