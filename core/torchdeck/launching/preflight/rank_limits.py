"""Checks the limits of processes on a node: open files and locked memory."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.nodes.probe.facts import Limit, Limits
from torchdeck.plan.check import Check, ok, warning
from torchdeck.quantities import size

OWN_FILES = 256
"""Open files of a rank without peers: libraries, logs, data, and a data loader's shared tensors."""
FILES_PER_PEER = 4
"""Sockets to each other rank: one in each of up to four process groups."""
GOOD_FILES = 65_536
LOCKED_PER_RANK = 2**30
"""Bytes that RDMA may pin for each rank."""


def files_wanted(world_size: int) -> int:
    """Return the open files that one rank may need."""
    return OWN_FILES + FILES_PER_PEER * max(0, world_size - 1)


def check_limits(plan: LaunchPlan, node: NodePlan, limits: Limits, *, rdma: bool) -> Iterator[Check]:
    """Check the limits that ranks of `node` inherit.

    Args:
        plan: plan of the run.
        node: its part of the plan.
        limits: limits of a process of a new session there.
        rdma: ranks use InfiniBand or RoCE, which locks memory.
    """
    yield _files(node.name, limits.open_files, files_wanted(plan.world_size))
    locked, wanted = limits.locked_memory, LOCKED_PER_RANK * max(1, node.nproc)
    most = "unlimited" if locked.soft is None else size(locked.soft)
    if not rdma:
        yield ok("locked memory", node.name, f"{most}: enough without InfiniBand")
    elif locked.soft is None or locked.soft >= wanted:
        yield ok("locked memory", node.name, most)
    else:
        what = f"a process may lock {most}, and InfiniBand needs {size(wanted)}: connections of NCCL may fail"
        yield warning("locked memory", node.name, what, _raise("memlock", "unlimited", locked))


def _files(name: str, limit: Limit, wanted: int) -> Check:
    most = "any number of" if limit.soft is None else f"{limit.soft:,}"
    if limit.soft is None or limit.soft >= wanted:
        return ok("open files", name, f"a process may open {most} files, and a rank needs about {wanted:,}")
    what = f"a process may open {most} files, and a rank may need {wanted:,}"
    return warning("open files", name, what, _raise("nofile", str(max(GOOD_FILES, wanted)), limit))


_FLAGS = {"nofile": "n", "memlock": "l"}


def _raise(kind: str, value: str, limit: Limit) -> str:
    """Return how to raise a limit."""
    container = f"for a container `--ulimit {kind}={'-1' if value == 'unlimited' else value}`"
    persistent = f"`* - {kind} {value}` in /etc/security/limits.conf, then log in again; {container}"
    allowed = limit.hard is None or (value != "unlimited" and limit.hard >= int(value))
    if allowed:
        return f"`ulimit -{_FLAGS[kind]} {value}` in the shell that starts Torchdeck, or {persistent}"
    return persistent
