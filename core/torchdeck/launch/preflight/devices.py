"""Are the run's devices free of other runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchdeck.agent.leases import lease_holder
from torchdeck.launch.preflight.check import Check, failed, ok, warning
from torchdeck.plan.launch_plan import LaunchPlan


def check_devices(plan: LaunchPlan, home: Path) -> Iterator[Check]:
    """One check for each node of this machine's that leases devices."""
    for node in plan.nodes:
        if not node.devices:
            yield ok("devices", node.name, f"{_ranks(node.nproc)} on the CPU")
            continue
        leases = home / "leases"
        held = [found for key in node.devices if (found := lease_holder(leases, key)) is not None]
        if not held:
            yield ok("devices", node.name, f"{_ranks(node.nproc)} on {len(node.devices)} free GPUs")
            continue
        what = "; ".join(
            f"{found['device']} is held by run {found['run_id']} ({found['name']})" for found in held
        )
        if plan.policy.queue:
            yield warning("devices", node.name, what, "the run waits in the queue until it is free")
        else:
            stop = f"wait, `torchdeck runs stop {held[0]['run_id']}`"
            yield failed("devices", node.name, what, f"{stop}, choose other devices, or start with --queue")


def _ranks(count: int) -> str:
    return f"{count} rank{'s' if count > 1 else ''}"
