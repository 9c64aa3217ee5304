"""Checks of this machine's system, if it is one of a run's nodes."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.agent.probe.system import kills_after_logout, memory_facts
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.launching.preflight.disk_space import check_shared_memory
from torchdeck.plan.check import Check, ok, warning


def check_here(plan: LaunchPlan, node: str) -> Iterator[Check]:
    """Check shared memory for the ranks, and whether the run outlives the login session that starts it."""
    nproc = next((each.nproc for each in plan.all_nodes if each.name == node), 0)
    if nproc:
        yield check_shared_memory(node, nproc, memory_facts()["shm_free"])
    if not kills_after_logout():
        yield ok("login", node, "processes outlive their session")
        return
    what = "the login system ends what outlives a session (KillUserProcesses=yes), and a run with it"
    yield warning("login", node, what, "`loginctl enable-linger`, or stay logged in until the run is over")
