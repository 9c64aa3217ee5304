"""Compare a node's machine with the run's needs, and check its limits on processes."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.config.schema import RunConfig
from torchdeck.contract.plan.launch_plan import NodePlan
from torchdeck.launching.preflight.disk_space import Room, check_free, check_shared_memory
from torchdeck.nodes.probe.facts import Disk, NodeFacts
from torchdeck.nodes.probe.probe_session import ClockOffset
from torchdeck.plan.check import Check, failed, ok, warning

CLOCK_SKEW = 1.0
"""Clock difference in seconds from which it is reported: logs of nodes are compared by time."""
CLOCK_WRONG = 300.0
"""Clock difference in seconds beyond which certificates and file times fail."""


def check_machine(
    name: str, facts: NodeFacts, clock: ClockOffset | None, node: NodePlan | None
) -> Iterator[Check]:
    """Run all checks of one node's machine that need no other node, except disks and memory.

    Args:
        name: name of the node.
        facts: facts of the node.
        clock: offset of its clock from ours.
        node: its entry in the plan; None if no plan could be made, then a rank for each GPU is assumed.
    """
    yield _devices(name, facts, node)
    if clock is not None:
        yield _clock(name, clock)
    nproc = max(1, len(facts.gpu.devices)) if node is None else node.nproc
    yield check_shared_memory(name, nproc, facts.memory.shm_free)
    yield _own_name(name, facts)
    yield _login(name, facts)
    yield from _orphans(name, facts)


def _devices(name: str, facts: NodeFacts, node: NodePlan | None) -> Check:
    if facts.gpu.error:
        return failed("devices", name, facts.gpu.error, "look at the driver there: `nvidia-smi`")
    if node is None:
        return ok("devices", name, f"{len(facts.gpu.devices) or 'no'} GPUs")
    here = {gpu.uuid or str(gpu.index): gpu for gpu in facts.gpu.devices}
    gone = [device for device in node.devices if device not in here]
    if gone:
        return failed(
            "devices", name, f"GPU {', '.join(gone)} does not exist", "plan again, or choose other devices"
        )
    used = [here[device] for device in node.devices if here[device].users]
    if used:
        whose = ", ".join(f"GPU {gpu.index} (pid {gpu.users[0].pid})" for gpu in used)
        return warning(
            "devices", name, f"other processes use {whose}", "end these processes, or choose other devices"
        )
    count, what = (len(node.devices), "free GPU") if node.devices else (node.nproc, "rank")
    return ok("devices", name, f"{count} {what}{_s(count)}{'' if node.devices else ' on the CPU'}")


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _clock(name: str, clock: ClockOffset) -> Check:
    off = abs(clock.seconds)
    if off <= max(CLOCK_SKEW, clock.error):
        return ok(
            "clock", name, f"its clock differs by {clock.seconds * 1e3:+.0f} ms (± {clock.error * 1e3:.0f})"
        )
    what = f"its clock is {off:.1f} s {'ahead' if clock.seconds > 0 else 'behind'}"
    fix = "set it by NTP there: `timedatectl set-ntp true`, or chrony"
    wrong = off - clock.error > CLOCK_WRONG  # beyond the measurement's error margin
    return failed("clock", name, what, fix) if wrong else warning("clock", name, what, fix)


def _own_name(name: str, facts: NodeFacts) -> Check:
    own = facts.own_name
    if own.resolves:
        return ok("host name", name, f"host name {own.name} resolves")
    how = "takes long to look up" if own.slow else "does not resolve"
    fix = f"add the line `127.0.1.1 {own.name}` to /etc/hosts there; torchrun may wait a minute for it"
    return warning("host name", name, f"its own name {own.name} {how}", fix)


def _login(name: str, facts: NodeFacts) -> Check:
    if not facts.kills_after_logout:
        return ok("login", name, "processes outlive their session")
    what = "its login system kills processes when a session ends (KillUserProcesses=yes)"
    return failed("login", name, what, f"`loginctl enable-linger {facts.system.user}` there")


def _orphans(name: str, facts: NodeFacts) -> Iterator[Check]:
    if facts.orphans:
        count = sum(len(run.processes) for run in facts.orphans)
        what = (
            f"{count} processes of dead runs are left: {', '.join(run.run_id for run in facts.orphans[:3])}"
        )
        yield warning("orphans", name, what, f"`torchdeck nodes clean {name}`")


# Disk checks of one node: folders the run writes to must be writable and have enough space.


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
            fix = "make it a folder you can write to there, or change checkpoint.directory"
            yield _room(config, name, disk, "checkpoint folder", fix, checkpoint)
        elif not disk.there:
            fix = f"make it there, or `torchdeck nodes edit {name}` names another working_dir"
            yield failed("working directory", name, f"{disk.path} does not exist", fix)


def _room(config: RunConfig, name: str, disk: Disk, what: str, fix: str, checkpoint: int) -> Check:
    if not disk.writable:
        return failed(what, name, f"{disk.path} cannot be written", fix)
    if not disk.total:  # /proc and the like: root may write, nothing is stored
        return failed(what, name, f"{disk.path} is not on a disk: files there are lost", fix)
    return check_free(config, Room(disk.path, disk.free, checkpoint, disk.inodes), name)
