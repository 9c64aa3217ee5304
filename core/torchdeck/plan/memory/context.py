"""Memory of a device's runtime besides tensors, and parts that are not known to the byte."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.plan.memory.sharding import UnitSizes
from torchdeck.plan.memory.spec import FULLY_SHARDED, ZERO, StrategySpec

_CUDA_CONTEXT = 512 * 2**20
"""Not validated: the order of magnitude shown by nvidia-smi for a process that has made one tensor."""

_PROCESS = 320 * 2**20
"""Interpreter, torch and the trainer: the resident set of a rank that had trained a byte-gpt of a few KiB was
319 to 331 MiB under single, ddp and fsdp (torch 2.13, x86-64); 220 of its own, the rest shared libraries.
"""

_CUDA_FRAGMENTATION = 0.10
"""Not validated: fraction that the caching allocator may reserve beyond what is allocated."""

_KERNEL_SCRATCH = 0.01
"""Working memory inside operations, which tracing does not see; in fp32 up to 0.1 % was measured."""

_ZERO_ERROR = 0.07
"""Error of peaks under ZeRO: 6.4 % too low was the maximum, if stage 3 frees weights while it computes."""

_SCATTERED = 1 / 3
"""Maximum fraction of host memory that a CPU rank takes beyond its tensors at a large peak: malloc keeps and
scatters freed memory. 7 to 33 % was seen in seven trainings of 0.6 to 1.4 GiB (resident set, glibc).
"""

_HEAP = 128 * 2**20
"""Memory that any training may keep, if it has that much in tensors: glibc's heap takes allocations of up to
32 MiB, which covers all of a small training. 99 MiB was seen for 118 MiB of tensors (bdh), and none of it
with a fixed MALLOC_MMAP_THRESHOLD_, which returns all memory.
"""

CUDA_NOTE = "the CUDA context and what the allocator reserves beyond tensors are assumed, not validated"


def context_bytes(spec: StrategySpec) -> int:
    """Return the bytes of the device that are used before the first tensor; on the CPU, of the process."""
    return _CUDA_CONTEXT if spec.device == "cuda" else _PROCESS


def uncertainty(spec: StrategySpec, sizes: Sequence[UnitSizes], largest: int, tensors: int) -> int:
    """Return how much more may be allocated at the peak than was computed.

    A worker thread of gloo holds the buffers of a finished collective until it is scheduled again. If
    ranks share cores that was seen to add one gathered unit to the peak of some steps, and never more.

    Args:
        spec: the strategy.
        sizes: sizes of the units; only used under fsdp and hsdp.
        largest: bytes of the largest single allocation of forward and backward.
        tensors: bytes at the computed peak, without the context.
    """
    late = 0
    if spec.kind in FULLY_SHARDED and spec.shard > 1 and spec.backend == "gloo":
        late = max((max(unit.gathered, unit.scattered) for unit in sizes), default=0)
    # oneDNN copies an operand of a 16-bit matrix product to a new layout: part of it was seen in the events
    reordered = largest if spec.device == "cpu" and spec.precision != "fp32" else 0
    share = _CUDA_FRAGMENTATION if spec.device == "cuda" else _KERNEL_SCRATCH
    share += _ZERO_ERROR if spec.kind in ZERO else 0.0
    return late + reordered + round(share * tensors)


def overhead(spec: StrategySpec, tensors: int) -> int:
    """Return the bytes that a process may take beyond its context and its tensors; on GPUs they are in
    `uncertainty`.

    Args:
        spec: the strategy.
        tensors: bytes at the computed peak, without the context.
    """
    return max(round(_SCATTERED * tensors), min(tensors, _HEAP)) if spec.device == "cpu" else 0
