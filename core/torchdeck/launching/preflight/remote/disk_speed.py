"""Measures the disks of checkpoints, on all nodes at once, as they save at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.launching.preflight.disk_space import checkpoint_bytes, profiled_bytes, share_of
from torchdeck.launching.preflight.remote.probe_sessions import probe_sessions_with
from torchdeck.launching.prepare import ClusterFacts
from torchdeck.nodes.background import on_each
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.probe.probe_session import ProbeError, ProbeSession, understood
from torchdeck.plan.check import Check, ok, warning
from torchdeck.quantities import size

if TYPE_CHECKING:
    from torchdeck.contract.plan.model_profile import ModelProfile  # imports numpy

NAME = "disk speed"
CONNECT_LIMIT = 10.0
LIMIT = 20.0
"""Seconds for writing and reading; it takes two at most if the disk answers at all."""
LONG = 300.0
"""Seconds that a save may take without a warning."""
SLOW = 10e6
"""Bytes/s below which writing is reported if nothing is known of the size of checkpoints."""
EXAMPLE = 10 * 2**30
"""Size of a checkpoint that stands for an unknown one."""


class DiskSpeed(NamedTuple):
    """Speed of one node's disk, in bytes/s."""

    write: float
    read: float


def check_disk_speed(
    config: RunConfig,
    plan: LaunchPlan,
    found: ClusterFacts,
    connector: Connector,
    disks: Mapping[str, str],
) -> list[Check]:
    """Return one check for each node of the plan.

    Args:
        config: config of the run.
        plan: plan of the run.
        found: facts, including the model.
        connector: connector to the nodes.
        disks: nodes that keep checkpoints on one disk, as found by `preflight`; empty: unknown.
    """
    facts = {name: each.facts for name, each in found.remote.probed.items() if each.facts is not None}
    homes = {LOCALHOST: str(connector.home), **{name: each.home for name, each in facts.items()}}
    folders = {node.name: config.checkpoint.directory or homes[node.name] for node in plan.nodes}
    with probe_sessions_with(plan.nodes, connector, CONNECT_LIMIT) as sessions:
        refused = [
            warning(NAME, name, why, "check the node, then try again")
            for name, why in sessions.refused.items()
        ]
        names, open_ones = list(sessions.with_node), sessions.with_node
        measured = on_each(
            names, lambda name: _measure(name, open_ones[name], folders[name]), "disks", len(names)
        )
        speeds = dict(zip(names, measured, strict=True))
    sizes = {name: planned_bytes(config, plan, found.known.profile, name, disks) for name in speeds}
    return [*refused, *(judged(name, speeds[name], folders[name], sizes[name]) for name in speeds)]


def _measure(name: str, session: ProbeSession, folder: str) -> DiskSpeed | str:
    """Return the speed, or why there is none."""
    try:
        answer = session.ask(ProbeRequest.DISK_SPEED, LIMIT, folder=folder)
        with understood(name):
            return DiskSpeed(float(answer["write"]), float(answer["read"]))
    except ProbeError as error:
        return str(error)


def planned_bytes(
    config: RunConfig,
    plan: LaunchPlan,
    profile: ModelProfile | None,
    node: str,
    disks: Mapping[str, str],
) -> int:
    """Return the bytes of one checkpoint that the disk of `node` takes; 0 if unknown."""
    if config.run.recipe is None:
        return 0
    share = share_of(node, disks, plan, config.checkpoint.replicas)
    known = checkpoint_bytes(config, share)
    if known or profile is None or profile.source != "traced":
        return known
    return profiled_bytes(config, profile, share)


def judged(node: str, speed: DiskSpeed | str, folder: str, planned: int) -> Check:
    """Return the check of one node, with a sentence about its checkpoints.

    Args:
        node: name of the node.
        speed: speed of its disk, or why there is none.
        folder: where its checkpoints are written.
        planned: bytes of one checkpoint; 0 if unknown.
    """
    if isinstance(speed, str):
        fix = "look at the disk or the file server there: saving a checkpoint would hang or fail, too"
        return warning(NAME, node, f"the speed of {folder} is unknown: {speed}", fix)
    what = f"writes {size(int(speed.write))}/s, reads {size(int(speed.read))}/s at {Path(folder)}"
    bytes_, word = (planned, "a checkpoint of about") if planned else (EXAMPLE, "a checkpoint of")
    save, load = (bytes_ / max(1.0, each) for each in speed)
    take = "takes" if planned else "would take"
    what += f": {word} {size(bytes_)} {take} {_span(save)} to write, {_span(load)} to read"
    if save > LONG if planned else speed.write < SLOW:
        fix = "set checkpoint.directory to a faster disk, or checkpoint.background = true, or save less often"
        return warning(NAME, node, what, fix)
    return ok(NAME, node, what)


def _span(seconds: float) -> str:
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
