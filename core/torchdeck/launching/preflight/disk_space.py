"""Checks space for a run's files: on a disk for its checkpoints, in shared memory for its ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.config.schema import RunConfig
from torchdeck.config.training import Training
from torchdeck.plan.check import Check, failed, ok, warning
from torchdeck.quantities import size

if TYPE_CHECKING:
    from torchdeck.contract.plan.launch_plan import LaunchPlan
    from torchdeck.contract.plan.model_profile import ModelProfile  # imports numpy

_BYTES_PER_PARAMETER = {"sgd": 4, "adam": 12, "adamw": 12}
"""Saved per parameter: fp32 weights, and Adam's two moments."""
INODES = 1000
"""Minimum number of files that a run creates, with some checkpoints."""
LEAST_SHARED_MEMORY = 64 * 2**20
"""Bytes of /dev/shm for each rank: NCCL and data loaders put buffers there; containers provide 64 MiB in all.
"""


class Room(NamedTuple):
    """Facts about a disk that a run writes to."""

    place: str
    """A folder on it, as displayed."""
    free: int
    """Bytes."""
    checkpoint: int
    """Bytes that one checkpoint takes there; 0 if none is written there, or unknown."""
    inodes: int | None = None
    """Files that can still be created there; None if unlimited or unknown."""


def check_free(config: RunConfig, room: Room, node: str) -> Check:
    """Check free space against limits.min_free_disk, below which a run is stopped, and
    checkpoint.keep_last.
    """
    floor, estimate = config.limits.min_free_disk, room.checkpoint
    what = f"{size(room.free)} free at {room.place}"
    # a new checkpoint is complete before an old one is removed
    kept = estimate * (config.checkpoint.keep_last + 2)
    if room.inodes is not None and room.inodes < INODES:
        left = f"only {room.inodes}" if room.inodes else "no"
        what = f"{left} inodes are left at {room.place}: the disk has room for bytes, not for files"
        return failed("disk", node, what, "delete small files (`df -i` counts), or use another disk")
    if room.free < floor + estimate:
        need = f"limits.min_free_disk of {size(floor)}"
        need += f" and a checkpoint of about {size(estimate)}" if estimate else ""
        return failed("disk", node, f"{what}, too little for {need}", "make room, or use another disk")
    if room.free < floor + kept:
        what = f"{what}, and checkpoints will take about {size(kept)}"
        return warning("disk", node, what, "lower checkpoint.keep_last")
    return ok("disk", node, what)


def check_shared_memory(node: str, nproc: int, free: int) -> Check:
    """Check `free` bytes of shared memory against the needs of `nproc` ranks."""
    wanted = LEAST_SHARED_MEMORY * nproc
    if free >= wanted:
        return ok("shared memory", node, f"{size(free)} of shared memory free")
    ranks = f"{nproc} ranks want" if nproc > 1 else "its rank wants"
    what = f"{size(free)} are free in shared memory, and {ranks} {size(wanted)}"
    fix = "make it larger: `mount -o remount,size=8G /dev/shm`, or --shm-size for a container"
    return warning("shared memory", node, what, fix)


def share_of(node: str, disks: Mapping[str, str], plan: LaunchPlan | None, replicas: int = 0) -> Fraction:
    """Return the share of a checkpoint on the disk of `node`: each rank writes a part of it to its node's
    disk.

    Args:
        node: name of the node; for a spare the result is the most that it may get.
        disks: disks of all nodes, as returned by `disks_of`; if a node is missing, all may be on one disk.
        plan: gives the ranks per node; None if `disks` is empty.
        replicas: checkpoint.replicas: number of further disks with a copy of what is on one.
    """
    if plan is None or node not in disks:
        return Fraction(1)
    ranks: dict[str, int] = {}
    for part in plan.nodes:
        disk = disks.get(part.name, part.name)
        ranks[disk] = ranks.get(disk, 0) + part.nproc
    written = list(ranks.values())
    held = [
        sum(written[(at - back) % len(written)] for back in range(min(replicas, len(written) - 1) + 1))
        for at in range(len(written))
    ]
    of_disk = dict(zip(ranks, held, strict=True))
    return Fraction(of_disk.get(disks[node], max(held)), sum(written))


def checkpoint_bytes(config: RunConfig, share: Fraction = Fraction(1)) -> int:
    """Return the approximate size of a checkpoint on a disk with this share of it; 0 for a model unknown to
    Torchdeck.
    """
    if config.run.recipe != "byte-gpt":
        return 0
    return math.ceil(byte_gpt_parameters(config) * _bytes_per_parameter(config.training) * share)


def profiled_bytes(config: RunConfig, profile: ModelProfile, share: Fraction = Fraction(1)) -> int:
    """Return the same for a traced model: frozen tensors as they are, others with their training state."""
    trained = sum(tensor.numel for tensor in profile.parameters if tensor.trainable)
    frozen = sum(tensor.size for tensor in profile.parameters if not tensor.trainable)
    return math.ceil((trained * _bytes_per_parameter(config.training) + frozen) * share)


def byte_gpt_parameters(config: RunConfig) -> int:
    """Return the parameters of a byte-gpt: embeddings, 12 width² + 9 width per block, final norm, head."""
    model = config.model
    width, layers, context = int(model["width"]), int(model["layers"]), int(model["context"])
    block = 12 * width**2 + 9 * width
    vocabulary = int(model["vocabulary"])
    return (vocabulary + context) * width + layers * block + 2 * width + vocabulary * width


def _bytes_per_parameter(training: Training) -> int:
    momentum = 4 if training.optimizer == "sgd" and training.momentum > 0 else 0
    average = 4 if training.ema is not None else 0
    return _BYTES_PER_PARAMETER[training.optimizer] + momentum + average
