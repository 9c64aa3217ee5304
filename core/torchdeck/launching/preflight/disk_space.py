"""Checks space for a run's files: on a disk for its checkpoints, in shared memory for its ranks."""

from __future__ import annotations

import math
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.agent.probe.system import nearest
from torchdeck.config.schema import RunConfig
from torchdeck.config.training import Training
from torchdeck.contract.free_space import inodes_left, why_refused
from torchdeck.plan.check import Check, failed, ok, warning
from torchdeck.quantities import size
from torchdeck.runs.home import HomeError, check_private

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


# Checks that the run can write to its home and its checkpoints, and that there is space.

_NEEDS_CARE = re.compile(r'[\x00-\x1f\x7f":\\]')


def check_home(home: Path, node: str) -> Check:
    """Check that runs can be created below TORCHDECK_HOME, and that no other user can put files there."""
    if _NEEDS_CARE.search(str(home)) is not None:
        return failed(
            "home",
            node,
            f"the path {str(home)!r} holds a quote, colon, backslash or control character",
            "set TORCHDECK_HOME to a path without such characters",
        )
    if home.exists():
        try:
            check_private(home)
        except HomeError as error:
            return failed("home", node, error.finding, error.fix)
    return _writable("home", home, node, "set TORCHDECK_HOME to a folder you can write to")


def check_checkpoint_folder(directory: str | None, node: str) -> Iterator[Check]:
    """Check that checkpoints can be written to the configured folder; yield nothing if there is none."""
    if directory is None:
        return
    path = Path(directory)
    writable = _writable(
        "checkpoint folder", path, node, "make it a folder you can write to, or change checkpoint.directory"
    )
    yield writable
    if writable.status == "ok" and path.is_dir() and path.stat().st_mode & stat.S_IWOTH:
        yield warning(
            "checkpoint folder",
            node,
            f"anyone can write to {path} and thereby change what a run resumes from",
            f"`chmod o-w {path}`",
        )


def check_room(config: RunConfig, home: Path, node: str, checkpoint: int) -> Iterator[Check]:
    """Check free space for runs and checkpoints, against limits.min_free_disk and the size of checkpoints.

    Args:
        config: the requested configuration.
        home: TORCHDECK_HOME.
        node: name of the node.
        checkpoint: bytes that one takes; 0 if unknown.
    """
    places = [home]
    if config.checkpoint.directory is not None:
        places.append(Path(config.checkpoint.directory))
    for place in places:
        if _writable("", place, node, "").status == "failed":
            continue  # already reported
        holds_checkpoints = place is places[-1]
        yield _room(config, place, checkpoint if holds_checkpoints else 0, node)


def _room(config: RunConfig, place: Path, estimate: int, node: str) -> Check:
    existing = nearest(place)
    try:
        free, inodes = shutil.disk_usage(existing).free, inodes_left(existing)
    except OSError as error:
        return failed(
            "disk", node, f"free space of {existing} cannot be read: {error.strerror}", "mend the disk"
        )
    return check_free(config, Room(str(existing), free, estimate, inodes), node)


def _writable(name: str, path: Path, node: str, fix: str) -> Check:
    existing = nearest(path)
    if not existing.is_dir():
        if existing == path:
            return failed(name, node, f"{path} is not a folder", fix)
        return failed(name, node, f"{path} cannot be made: {existing} is not a folder", fix)
    try:
        # an actual write: modes reveal nothing of the superuser, of quotas, or of a file system's own rules
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        what = f"{path} is not writable" if existing == path else f"{path} cannot be made in {existing}"
        return failed(name, node, f"{what} ({why_refused(error, existing)})", fix)
    return ok(name, node, f"{path} is writable")
