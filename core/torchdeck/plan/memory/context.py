"""Memory of a device's runtime besides tensors, and parts that are not known to the byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchdeck.plan.memory.sharding import UnitSizes
from torchdeck.plan.memory.spec import FULLY_SHARDED, ZERO, StrategySpec

_CUDA_CONTEXT = 512 * 2**20
"""Not validated: the order of magnitude shown by nvidia-smi for a process that has made one tensor."""

_PROCESS = 320 * 2**20
"""Interpreter, torch and the trainer: the resident set of a rank that had trained a byte-gpt of a few KiB was
319 to 331 MiB under single, ddp and fsdp (torch 2.13, x86-64); 220 of its own, the rest shared libraries.
"""

_PROGRAM = 580 * 2**20
"""The same with the Hugging Face Trainer: 557 MiB with transformers 5.23 imported, 581 with TRL 1.16."""

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

_MMAPPED = 32 * 2**20
"""Bytes from which glibc maps each allocation on its own, and returns it (DEFAULT_MMAP_THRESHOLD_MAX)."""

_SHARDED_TENSORS, _SHARDED_UNITS = 2.1, 7.0
"""The same for ranks that gather and free units all the time, if units are smaller than that: share of the
tensors, and of all units together; the smaller one. Up to 2.06 and 6.3 were seen in seven trainings with 127
to 315 MiB of tensors under fsdp and hsdp (resident set, glibc, 2 to 4 ranks). With a fixed
MALLOC_MMAP_THRESHOLD_ it was none.
"""

_SHARDED_LARGE = 0.6
"""Share of the tensors with larger units: 0.44 was seen."""

CUDA_NOTE = "the CUDA context and what the allocator reserves beyond tensors are assumed, not validated"


def context_bytes(spec: StrategySpec) -> int:
    """Return the bytes of the device that are used before the first tensor; on the CPU, of the process."""
    if spec.device == "cuda":
        return _CUDA_CONTEXT
    return _PROGRAM if spec.is_program else _PROCESS


@dataclass(frozen=True)
class Largest:
    """Bytes of the largest single allocations of forward and backward."""

    any: int
    kernel: int
    """The largest that kernels take for themselves."""


def uncertainty(spec: StrategySpec, sizes: Sequence[UnitSizes], largest: Largest, tensors: int) -> int:
    """Return how much more may be allocated at the peak than was computed.

    A worker thread of gloo holds the buffers of a finished collective until it is scheduled again. If
    ranks share cores that was seen to add one gathered unit to the peak of some steps, and never more.

    Args:
        spec: the strategy.
        sizes: sizes of the units; only used under fsdp and hsdp.
        largest: largest allocations of forward and backward.
        tensors: bytes at the computed peak, without the context.
    """
    late = 0
    if spec.kind in FULLY_SHARDED and spec.shard > 1 and spec.backend == "gloo":
        late = max((max(unit.gathered, unit.scattered) for unit in sizes), default=0)
    # oneDNN copies an operand of a 16-bit matrix product to a new layout: part of it was seen in the events
    reordered = largest.any if spec.device == "cpu" and spec.precision != "fp32" else 0
    # a convolution's gradient is summed by several threads, each in a copy of its own
    reordered += largest.kernel if spec.device == "cpu" else 0
    share = _CUDA_FRAGMENTATION if spec.device == "cuda" else _KERNEL_SCRATCH
    share += _ZERO_ERROR if spec.kind in ZERO else 0.0
    return late + reordered + round(share * tensors)


def overhead(spec: StrategySpec, sizes: Sequence[UnitSizes], tensors: int) -> int:
    """Return the bytes that a process may take beyond its context and its tensors; on GPUs they are in
    `uncertainty`.

    Args:
        spec: the strategy.
        sizes: sizes of the units; only used under fsdp and hsdp.
        tensors: bytes at the computed peak, without the context.
    """
    if spec.device != "cpu":
        return 0
    usual = max(round(_SCATTERED * tensors), min(tensors, _HEAP))
    units = [max(unit.gathered, unit.scattered) for unit in sizes]
    if spec.kind not in FULLY_SHARDED or spec.shard == 1 or not units:
        return usual
    if max(units) > _MMAPPED:
        return max(usual, round(_SHARDED_LARGE * tensors))
    return max(usual, round(min(_SHARDED_TENSORS * tensors, _SHARDED_UNITS * sum(units))))
