"""Is there room for what a run writes: on a disk, for its checkpoints; in shared memory, for its ranks."""

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
    from torchdeck.contract.plan.model_profile import ModelProfile  # numpy comes with it

_BYTES_PER_PARAMETER = {"sgd": 4, "adam": 12, "adamw": 12}
"""Saved per parameter: fp32 weights, and Adam's two moments."""
INODES = 1000
"""Files that a run makes at least, with some checkpoints."""
LEAST_SHARED_MEMORY = 64 * 2**20
"""Bytes of /dev/shm for each rank: NCCL and data loaders put buffers there; containers give 64 MiB in all."""


class Room(NamedTuple):
    """What is known of a disk that a run writes to."""

    place: str
    """A folder on it, as it is said."""
    free: int
    """Bytes."""
    checkpoint: int
    """Bytes that one checkpoint takes there; 0 where none is written there, or nobody knows."""
    inodes: int | None = None
    """Files that can still be made there; None where that is not limited or not known."""


def check_free(config: RunConfig, room: Room, node: str) -> Check:
    """Against limits.min_free_disk, below which a run is stopped, and checkpoint.keep_last."""
    floor, estimate = config.limits.min_free_disk, room.checkpoint
    what = f"{size(room.free)} free at {room.place}"
    # a new checkpoint is whole before an old one goes
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
    """`free` bytes of it against what `nproc` ranks want."""
    wanted = LEAST_SHARED_MEMORY * nproc
    if free >= wanted:
        return ok("shared memory", node, f"{size(free)} of shared memory free")
    ranks = f"{nproc} ranks want" if nproc > 1 else "its rank wants"
    what = f"{size(free)} are free in shared memory, and {ranks} {size(wanted)}"
    fix = "make it larger: `mount -o remount,size=8G /dev/shm`, or --shm-size for a container"
    return warning("shared memory", node, what, fix)


def share_of(node: str, disks: Mapping[str, str], plan: LaunchPlan | None, replicas: int = 0) -> Fraction:
    """How much of a checkpoint lies on the disk of `node`: each rank writes a part of it to its node's disk.

    Args:
        node: which; of a spare it is the most that it may come to have.
        disks: of all nodes, as `disks_of` tells them; where a node is missing, all may lie on one disk.
        plan: says how many ranks each node has; None where `disks` are none.
        replicas: checkpoint.replicas: so many further disks have a copy of what is on one.
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
    """About what a checkpoint takes on a disk with so much of it; 0 where the model is not ours."""
    if config.run.recipe != "byte-gpt":
        return 0
    return math.ceil(byte_gpt_parameters(config) * _bytes_per_parameter(config.training) * share)


def profiled_bytes(config: RunConfig, profile: ModelProfile, share: Fraction = Fraction(1)) -> int:
    """The same for a model that was traced: its frozen tensors as they are, of others what training keeps."""
    trained = sum(tensor.numel for tensor in profile.parameters if tensor.trainable)
    frozen = sum(tensor.size for tensor in profile.parameters if not tensor.trainable)
    return math.ceil((trained * _bytes_per_parameter(config.training) + frozen) * share)


def byte_gpt_parameters(config: RunConfig) -> int:
    """Parameters of a byte-gpt: embeddings, 12 width² + 9 width a block, final norm, head."""
    model = config.model
    width, layers, context = int(model["width"]), int(model["layers"]), int(model["context"])
    block = 12 * width**2 + 9 * width
    vocabulary = int(model["vocabulary"])
    return (vocabulary + context) * width + layers * block + 2 * width + vocabulary * width


def _bytes_per_parameter(training: Training) -> int:
    momentum = 4 if training.optimizer == "sgd" and training.momentum > 0 else 0
    average = 4 if training.ema is not None else 0
    return _BYTES_PER_PARAMETER[training.optimizer] + momentum + average
