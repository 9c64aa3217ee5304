"""Checks that the run's devices are not in use by other runs."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from torchdeck.agent.leases import lease_holder
from torchdeck.agent.probe.system import kills_after_logout, memory_facts
from torchdeck.config.schema import RunConfig
from torchdeck.contract.layout import Home
from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.launching.preflight.disk_space import check_shared_memory
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


def check_precision(
    config: RunConfig, node: NodePlan | None, name: str, bf16: Sequence[str] | None
) -> Iterator[Check]:
    """Warn if a recipe's bf16 is to run on CPUs without instructions for it.

    Args:
        config: the requested configuration.
        node: the node's part of the plan; None if no plan could be made, and there is then no warning.
        name: name of the node.
        bf16: which of `BF16_FLAGS` its CPUs have; None if not reported, or not x86.
    """
    if config.run.recipe is None or config.training.precision != "bf16" or node is None:
        return
    if node.devices or bf16 is None or bf16:
        return
    what = "its CPUs have no instructions for bf16 (no AVX-512, no AMX): steps may take many times as long"
    yield warning("precision", name, what, 'training.precision = "fp32" is faster there')


def check_here(plan: LaunchPlan, node: str) -> Iterator[Check]:
    """Check shared memory for the ranks, and whether the run outlives the login session that starts it."""
    nproc = next((each.nproc for each in plan.all_nodes if each.name == node), 0)
    if nproc:
        yield check_shared_memory(node, nproc, memory_facts()["shm_free"])
    if not kills_after_logout():
        yield ok("login", node, "processes outlive their session")
        return
    what = (
        "the login system kills processes when your session ends (KillUserProcesses=yes), including the run"
    )
    yield warning("login", node, what, "`loginctl enable-linger`, or stay logged in until the run is over")
