"""Checks that the run's devices are not in use by other runs."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from torchdeck.agent.leases import lease_holder
from torchdeck.contract.layout import Home
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.plan.check import Check, failed, ok, warning


class Holder(NamedTuple):
    """A run that has a device."""

    device: str
    run_id: str
    name: str


def check_devices(plan: LaunchPlan, home: Path, elsewhere: Container[str] = ()) -> Iterator[Check]:
    """Yield one check for each node that leases devices, except those in `elsewhere`."""
    for node in plan.nodes:
        if node.name in elsewhere:
            continue
        if not node.devices:
            yield ok("devices", node.name, f"{_ranks(node.nproc)} on the CPU")
            continue
        leases = Home(home).leases
        found = [lease_holder(leases, key) for key in node.devices]
        held = [Holder(each["device"], each["run_id"], each["name"]) for each in found if each is not None]
        if held:
            yield check_held(node.name, held, queue=plan.policy.queue)
        else:
            yield ok("devices", node.name, f"{_ranks(node.nproc)} on {len(node.devices)} free GPUs")


def check_held(node: str, held: Sequence[Holder], *, queue: bool) -> Check:
    """Report that `held`, at least one device, is not free; the run waits for them, or is refused."""
    what = "; ".join(f"{each.device} is held by run {each.run_id} ({each.name})" for each in held)
    if queue:
        return warning("devices", node, what, "the run waits in the queue until it is free")
    stop = f"wait, `torchdeck runs stop {held[0].run_id}`"
    return failed("devices", node, what, f"{stop}, choose other devices, or start with --queue")


def _ranks(count: int) -> str:
    return f"{count} rank{'s' if count > 1 else ''}"
