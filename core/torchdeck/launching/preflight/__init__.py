"""Checks before a start: quick, without torch; each failure is one sentence with a remedy."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from torchdeck.agent.probe.system import (
    bf16_here,
    communication_variables,
    infiniband_devices,
    process_limits,
)
from torchdeck.config.chosen_nodes import node_names
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import LOCALHOST, InterpreterFacts
from torchdeck.contract.network.private_socket import why_open
from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.launching.facts.interpreter_check import check_deepspeed, check_interpreter
from torchdeck.launching.facts.probed_nodes import NodeReport
from torchdeck.launching.preflight.alert_targets import check_alerts
from torchdeck.launching.preflight.devices_in_use import check_devices, check_here, check_precision
from torchdeck.launching.preflight.disk_space import (
    check_checkpoint_folder,
    check_home,
    check_room,
    checkpoint_bytes,
    share_of,
)
from torchdeck.launching.preflight.initial_weights import check_initial_weights
from torchdeck.launching.preflight.model import check_model
from torchdeck.launching.preflight.network import HostNameCheck, check_port, check_ports, check_reach
from torchdeck.launching.preflight.program_check import check_program
from torchdeck.launching.preflight.rank_limits import check_limits
from torchdeck.launching.preflight.rank_variables import (
    check_variables,
    uses_rdma,
    variables_of,
)
from torchdeck.launching.preflight.source_files import check_resume, check_sources, check_trust
from torchdeck.launching.preflight.text_length import check_data
from torchdeck.launching.prepare import ClusterFacts
from torchdeck.nodes.probe.facts import Limits
from torchdeck.plan.check import Check

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector

__all__ = ["Check", "check_model", "failures", "preflight"]


def preflight(
    config: RunConfig,
    plan: LaunchPlan | None,
    found: ClusterFacts,
    home: Path,
    connector: Connector | None = None,
    disks: MutableMapping[str, str] | None = None,
) -> list[Check]:
    """Check for everything that would stop a run or make it hang, before the start.

    Memory is checked separately, by `check_model`, as a model's first trace takes seconds. This takes tens of
    milliseconds; up to a second if this host's own name does not resolve, and seconds with nodes reached over
    SSH.

    Args:
        config: the requested configuration.
        plan: the plan; None if no plan could be made, and devices are then not checked.
        found: facts about machines and interpreters.
        home: TORCHDECK_HOME; need not exist yet.
        connector: connector for nodes; None: no login is requested.
        disks: receives the nodes that keep checkpoints on one disk, for `check_model`.
    """
    names = list(found.remote.names) or node_names(config)
    described = check_reach(names, found.inventory)
    if described.status == "failed":
        return [described]  # an unreachable node cannot be checked
    ports = () if plan is None else check_ports(plan, _why_open(plan, found.remote))
    if not found.remote.names:
        return [described, *_here(config, plan, found, home, names[0]), *ports]
    from torchdeck.launching.preflight.remote.nodes import check_nodes
    from torchdeck.nodes.connector import Connector

    looked = check_nodes(config, plan, found, connector or Connector(home))
    if disks is not None:
        disks.update(looked.disks)
    if LOCALHOST in names:
        return [*looked.checks, *_here(config, plan, found, home, LOCALHOST, looked.disks), *ports]
    return [*looked.checks, *_sources(config, found, LOCALHOST), check_home(home, LOCALHOST), *ports]


def _why_open(plan: LaunchPlan, remote: NodeReport) -> str:
    """Return why the first node cannot close the store to other users; empty if it can, or is unknown."""
    first = plan.nodes[0].name
    if first == LOCALHOST or first not in remote.names:
        return why_open()
    facts = remote.probed[first].facts if first in remote.probed else None
    return "" if facts is None else facts.store_open or ""


def _here(
    config: RunConfig,
    plan: LaunchPlan | None,
    found: ClusterFacts,
    home: Path,
    node: str,
    disks: Mapping[str, str] = MappingProxyType({}),
) -> list[Check]:
    """Run the checks of this machine as a node."""
    name = HostNameCheck(node)
    return [*_checks(config, plan, found, home, node, disks), name.result()]


def _sources(config: RunConfig, found: ClusterFacts, node: str) -> Iterator[Check]:
    user_path = config.run.env.get("PYTHONPATH", found.environ.get("PYTHONPATH", ""))
    yield from check_sources(config.run, node, user_path)
    yield from check_trust(config, found.held, node)


def failures(checks: list[Check]) -> list[Check]:
    """Return the checks that block a start."""
    return [check for check in checks if check.status == "failed"]


def _is_unasked(facts: InterpreterFacts) -> bool:
    """Return whether the interpreter was not started, as it is not trusted yet: `check_trust` reports
    that.
    """
    return not facts.python and not facts.error


def _process_here(plan: LaunchPlan, node: NodePlan, found: ClusterFacts) -> Iterator[Check]:
    """Check the limits and variables that ranks on this machine inherit."""
    environ, infiniband = communication_variables(found.environ), infiniband_devices()
    rdma = uses_rdma(plan, variables_of(node, environ), infiniband)
    yield from check_limits(plan, node, Limits.model_validate(process_limits()), rdma=rdma)
    here = found.inventory.find(node.name)
    yield from check_variables(
        plan,
        node,
        environ,
        interfaces=[name for _, name in socket.if_nameindex()],
        infiniband=infiniband,
        gpu_names=[] if here is None else [device.name for device in here.devices],
    )


def _checks(
    config: RunConfig,
    plan: LaunchPlan | None,
    found: ClusterFacts,
    home: Path,
    node: str,
    disks: Mapping[str, str],
) -> Iterator[Check]:
    run = config.run
    yield from _sources(config, found, node)
    if node in found.interpreters and not _is_unasked(found.interpreters[node]):
        yield from check_interpreter(found.interpreters[node], node, recipe=run.recipe is not None)
        if run.recipe is not None and config.distributed.strategy == "deepspeed":
            yield from check_deepspeed(found.interpreters[node], node)
    if plan is not None:
        yield from check_program(config, plan, node)
        yield from check_devices(plan, home, found.remote.probed)
        yield from check_here(plan, node)
        if plan.alerts is not None and plan.nodes[0].name == node:
            yield from check_alerts(plan.alerts, node)
        part = next((each for each in plan.all_nodes if each.name == node), None)
        if part is not None:
            yield from _process_here(plan, part, found)
        has = bf16_here() if config.training.precision == "bf16" else None
        yield from check_precision(config, part, node, has)
    port = config.distributed.rendezvous.port
    if port != "auto":
        yield check_port(port, node)
    yield check_home(home, node)
    yield from check_checkpoint_folder(config.checkpoint.directory, node)
    yield from check_room(
        config, home, node, checkpoint_bytes(config, share_of(node, disks, plan, config.checkpoint.replicas))
    )
    yield from check_data(config, node)
    yield from check_initial_weights(config, node)
    yield from check_resume(config, node)
