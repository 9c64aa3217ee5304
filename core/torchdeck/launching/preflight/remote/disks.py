"""Disk checks of one node: folders the run writes to must be writable and have enough space."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.config.schema import RunConfig
from torchdeck.launching.preflight.disk_space import Room, check_free
from torchdeck.nodes.probe.facts import Disk, NodeFacts
from torchdeck.plan.check import Check, failed


def check_disks(config: RunConfig, name: str, facts: NodeFacts, checkpoint: int) -> Iterator[Check]:
    """Check its home for runs, checkpoint.directory, and the working directory of the node inventory.

    Args:
        config: config of the run.
        name: name of the node.
        facts: facts of the node.
        checkpoint: bytes that one checkpoint takes on its disk; 0 if unknown.
    """
    folder = config.checkpoint.directory
    for disk in facts.disks:
        if disk.path == facts.home:
            fix = f"`torchdeck nodes edit {name}` names another home"
            yield _room(config, name, disk, "home", fix, 0 if folder else checkpoint)
        elif disk.path == folder:
            fix = "make it a folder you may write in there, or change checkpoint.directory"
            yield _room(config, name, disk, "checkpoint folder", fix, checkpoint)
        elif not disk.there:
            fix = f"make it there, or `torchdeck nodes edit {name}` names another working_dir"
            yield failed("working directory", name, f"{disk.path} is not there", fix)


def _room(config: RunConfig, name: str, disk: Disk, what: str, fix: str, checkpoint: int) -> Check:
    if not disk.writable:
        return failed(what, name, f"{disk.path} cannot be written", fix)
    if not disk.total:  # /proc and the like: root may write, nothing is stored
        return failed(what, name, f"{disk.path} is on no disk: nothing can be kept there", fix)
    return check_free(config, Room(disk.path, disk.free, checkpoint, disk.inodes), name)
