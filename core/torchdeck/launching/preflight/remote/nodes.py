"""All checks of a run's nodes that are reached over SSH, run concurrently."""

from __future__ import annotations

import posixpath
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from torchdeck.agent.probe.network import WORD_LENGTH
from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.contract.inventory import LOCALHOST, InterpreterFacts, NodeInfo, major_minor
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.contract.plan.slots import slot
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.code.scan import MAX_BYTES, MAX_FILES
from torchdeck.launching.code.user_code import main_file
from torchdeck.launching.facts.interpreter_check import check_deepspeed, check_interpreter
from torchdeck.launching.preflight.devices_in_use import Holder, check_held, check_precision
from torchdeck.launching.preflight.disk_space import checkpoint_bytes, share_of
from torchdeck.launching.preflight.rank_limits import check_limits
from torchdeck.launching.preflight.rank_variables import (
    check_variables,
    uses_rdma,
    variables_of,
)
from torchdeck.launching.preflight.remote.machine_check import check_disks, check_machine
from torchdeck.launching.preflight.remote.probe_sessions import ProbeSessions, probe_sessions_with
from torchdeck.launching.preflight.remote.shared import check_parts, check_shared, disks_of, needs_sharing
from torchdeck.launching.prepare import ClusterFacts
from torchdeck.nodes.background import on_each
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.probe.connections import Connected, connect_all
from torchdeck.nodes.probe.facts import NodeData, NodeFacts, Python, Text
from torchdeck.nodes.probe.probe_session import ProbeError, ProbeSession, understood
from torchdeck.plan.check import Check, failed, ok, warning
from torchdeck.plan.code_paths import IGNORE_FILE, left_out_why
from torchdeck.quantities import size

REACH_LIMIT = 10.0
"""Timeout in seconds for connecting to a node that answered a moment ago."""


class LookedAt(NamedTuple):
    """Result of checks on nodes, or between them."""

    checks: tuple[Check, ...] = ()
    disks: Mapping[str, str] = MappingProxyType({})
    """Nodes that share a folder of checkpoints, as returned by `disks_of`; empty if not checked."""


def check_nodes(
    config: RunConfig, plan: LaunchPlan | None, found: ClusterFacts, connector: Connector
) -> LookedAt:
    """Run all checks of a run's remote nodes; none of them imports torch. Takes about fifteen seconds at
    most.

    Args:
        config: config of the run.
        plan: plan of the run; None if no plan could be made, then only each node's own facts are checked.
        found: facts of the nodes.
        connector: connector to the nodes.
    """
    probed = found.remote.probed
    facts = {name: probed[name].facts for name in found.remote.names if name in probed}
    known = {name: fact for name, fact in facts.items() if fact is not None}
    between = LookedAt()
    if plan is not None and len(known) == len(probed):
        between = _between(config, plan, found, connector)
    checks = list(_each(config, plan, found, between.disks))
    absent = found.remote.absent
    checks += [
        warning("ssh", node.name, f"left out: {node.why}", "the run starts without it") for node in absent
    ]
    made = config.run.environment is not None
    if not made:  # else ranks use none of what was found in the nodes' own Pythons
        checks += check_versions(known, plan.backend if plan is not None else _likely_backend(config, known))
    if made or LOCALHOST in found.remote.names:
        names = [name for name in found.remote.names if name in found.interpreters]
        checks += check_interpreters({name: found.interpreters[name] for name in names})
    return LookedAt((*checks, *between.checks), between.disks)


def _likely_backend(config: RunConfig, known: Mapping[str, NodeFacts]) -> str:
    """Return the backend that a plan would choose."""
    asked = config.distributed
    on_cpu = asked.devices == "cpu" or not all(facts.gpu.devices for facts in known.values())
    return asked.backend if asked.backend != "auto" else "gloo" if on_cpu else "nccl"


def _each(
    config: RunConfig, plan: LaunchPlan | None, found: ClusterFacts, disks: Mapping[str, str]
) -> Iterator[Check]:
    recipe = config.run.recipe is not None
    parts = {} if plan is None else {node.name: node for node in plan.all_nodes}
    for name in (name for name in found.remote.names if name in found.remote.probed):
        probed = found.remote.probed[name]
        faults = {fault.check: fault for fault in found.remote.faults if fault.node == name}
        if "ssh" not in faults:
            yield ok("ssh", name, f"reached in {probed.seconds:.2f} s")
        yield from (failed(fault.check, name, fault.what, fault.fix) for fault in faults.values())
        if probed.facts is None:
            continue
        if plan is not None and name in parts:
            yield from _code(config, plan, name)
        if len(found.remote.names) > 1 and "address" not in faults:
            yield from _address(name, found.remote.nodes)
        interpreter = found.interpreters[name]
        yield from check_interpreter(interpreter, name, recipe=recipe)
        if recipe and config.distributed.strategy == "deepspeed":
            yield from check_deepspeed(interpreter, name)
        checkpoint = checkpoint_bytes(config, share_of(name, disks, plan, config.checkpoint.replicas))
        yield from check_disks(config, name, probed.facts, checkpoint)
        checks = check_machine(name, probed.facts, probed.clock, parts.get(name))
        yield from (check for check in checks if check.name not in faults)
        yield from check_precision(config, parts.get(name), name, probed.facts.cpu.bf16)
        if plan is not None and name in parts:
            yield from _process(plan, parts[name], probed.facts)


def _process(plan: LaunchPlan, node: NodePlan, facts: NodeFacts) -> Iterator[Check]:
    """Check the limits and variables that the node's ranks inherit."""
    variables = variables_of(node, facts.variables)
    if facts.limits is not None:
        rdma = uses_rdma(plan, variables, facts.infiniband)
        yield from check_limits(plan, node, facts.limits, rdma=rdma)
    yield from check_variables(
        plan,
        node,
        facts.variables,
        interfaces=[interface.name for interface in facts.interfaces],
        infiniband=facts.infiniband,
        gpu_names=[gpu.name for gpu in facts.gpu.devices],
    )


def _address(name: str, nodes: Sequence[NodeInfo]) -> Iterator[Check]:
    """Check the address at which the others reach it, from the node inventory or the kernel's route to its
    peers.
    """
    for node in (node for node in nodes if node.name == name):
        yield ok("address", name, f"{node.address}{f' on {node.interface}' if node.interface else ''}")


def _code(config: RunConfig, plan: LaunchPlan, node: str) -> Iterator[Check]:
    """Check that the node gets the same code, or that it is too large, with details in a warning of the
    plan.
    """
    if config.run.sync == "none" or config.run.recipe in BUILTIN_RECIPES:
        return
    count = len(plan.code.files)
    main = main_file(config)
    why = None if main is None else left_out_why(plan.code, str(main))
    if main is not None and why is not None:
        fix = f"take it out of the file, or write !{main.name} into {IGNORE_FILE} to copy it anyway"
        yield failed("code", node, f"{main} is what the run executes, and is not copied there: {why}", fix)
    elif plan.code.folder:
        what = f"gets a copy of {count:,} file{'s' * (count > 1)}, {size(plan.code.size)}, compared by hash"
        yield ok("code", node, what)
        yield from _arguments(config, plan, node)
    elif count:  # files that are hashed if no copy is made
        most = f"over {MAX_FILES:,} files or {size(MAX_BYTES)}"
        what = f"the working directory is too large to be sent there: {most}"
        fix = (
            f"list what no run needs in {IGNORE_FILE} (`torchdeck plan` lists the biggest files), or share "
            'the folder and set run.sync = "none"'
        )
        yield failed("code", node, what, fix)
    elif slot("code") in plan.node(node).working_dir:
        what = (
            "no file of the working directory is sent there: the directory is empty, or everything "
            "in it is ignored"
        )
        fix = f"`torchdeck nodes edit {node}` names a working_dir there, or set run.working_dir"
        yield failed("code", node, what, fix)


def _arguments(config: RunConfig, plan: LaunchPlan, node: str) -> Iterator[Check]:
    """Warn of files in the program's arguments that are not copied to the node."""
    here = config.run.working_dir or plan.code.folder
    for argument in config.run.args:
        path = argument.partition("=")[2] if argument.startswith("-") else argument
        why = left_out_why(plan.code, posixpath.join(here, path)) if path else None
        if why is not None and Path(here, path).exists():
            said = f"{path} is an argument of the program, and is not copied there: {why}"
            fix = f"write !{path} into {IGNORE_FILE} to copy it, or give a path that every node has"
            yield warning("code", node, said, fix)


def _between(config: RunConfig, plan: LaunchPlan, found: ClusterFacts, connector: Connector) -> LookedAt:
    """Run the checks on the nodes themselves: leases there, files they must see, connections between them."""
    remote = [node for node in plan.all_nodes if node.name != LOCALHOST]
    port = config.distributed.rendezvous.port
    several = len(plan.all_nodes) > 1
    asked = list(plan.all_nodes) if several else remote
    leasing = any(node.devices for node in remote)
    if not (several or leasing or needs_sharing(config) or isinstance(port, int)):
        return LookedAt()
    with probe_sessions_with(asked, connector, REACH_LIMIT) as probe_sessions:
        if probe_sessions.refused:
            fix = "check the node, then try again"
            return LookedAt(
                tuple(failed("connections", name, why, fix) for name, why in probe_sessions.refused.items())
            )
        theirs = {node.name: probe_sessions.with_node[node.name] for node in remote}
        homes = _homes(found, connector)
        with_ranks = [node for node in remote if node in plan.nodes]
        checks = [*check_leases(with_ranks, theirs, homes, queue=plan.policy.queue)] if leasing else []
        if needs_sharing(config):
            checks += check_shared(config, theirs)
        if several:
            checks += _connections(config, plan, probe_sessions)
        elif isinstance(port, int):
            checks.append(check_port_of(asked[0].name, probe_sessions.with_node[asked[0].name], port))
        disks: Mapping[str, str] = {}
        if several and config.run.recipe is not None:
            folder = config.checkpoint.directory
            try:
                disks = disks_of(
                    probe_sessions.with_node, homes if folder is None else dict.fromkeys(homes, folder)
                )
                checks += check_parts(config, plan, disks)
            except ProbeError as error:
                checks.append(_blamed("checkpoints", error, plan))
        return LookedAt(tuple(checks), disks)


def _homes(found: ClusterFacts, connector: Connector) -> dict[str, str]:
    """Return TORCHDECK_HOME of every node."""
    theirs = {name: each.facts.home for name, each in found.remote.probed.items() if each.facts is not None}
    return {LOCALHOST: str(connector.home), **theirs}


def _connections(config: RunConfig, plan: LaunchPlan, probe_sessions: ProbeSessions) -> list[Check]:
    port = config.distributed.rendezvous.port
    addresses = {node.name: node.address for node in plan.all_nodes}
    try:
        ways = connect_all(probe_sessions.with_node, addresses, port=port if isinstance(port, int) else None)
        return list(check_connections(ways, addresses))
    except Refusal as error:
        return [_blamed("connections", error, plan)]


def _blamed(name: str, error: Exception, plan: LaunchPlan) -> Check:
    """Return a failed check of the node that an error names."""
    names = [node.name for node in plan.all_nodes]
    words = str(error).replace(":", " ").split()
    node = next((node for node in names if ["node", node] == words[:2]), names[0])
    return failed(name, node, str(error), "check the node, then try again")


def check_connections(connected: list[Connected], addresses: Mapping[str, str]) -> Iterator[Check]:
    """Yield one check for each node that others connect to."""
    for node, address in addresses.items():
        ways = [way for way in connected if way.target == node]
        bad = [way for way in ways if not way.ok]
        if not ways:
            continue
        if not bad:
            slowest = max(way.latency or 0.0 for way in ways)
            yield ok("connections", node, f"all others reach {address} (at most {slowest * 1e3:.1f} ms)")
            continue
        worst = bad[0]
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        what = f"{worst.source}{more} cannot connect to {address}, port {worst.port}: {worst.error}"
        fix = (
            "open all TCP ports between the nodes in the firewall, because ranks listen on random ports; "
            f"or `torchdeck nodes edit {node}` selects another training_address or interface"
        )
        yield failed("connections", node, what, fix)


# Check that all nodes have the same Python, torch, CUDA and NCCL; differences make ranks hang or diverge.


def check_versions(nodes: Mapping[str, NodeFacts], backend: str) -> Iterator[Check]:
    """Check every node for each component that must be the same on all; the first node is the reference.

    Nodes without torch are skipped where it is compared: that is reported already.

    Args:
        nodes: facts of each, by name, in the order of node ranks.
        backend: `nccl` or `gloo`; the libraries of GPUs matter only under `nccl`.
    """
    if len(nodes) < 2:
        return
    pythons = {name: facts.python for name, facts in nodes.items()}
    yield from _same("torch", {name: python.torch for name, python in pythons.items()}, strict=True)
    # pickles and byte code are not compatible across minor versions; patch levels are harmless
    yield from _same("python", {name: _minor(python) for name, python in pythons.items()}, strict=True)
    if backend == "nccl":
        yield from _same(
            "cuda", {name: python.cuda or "none" for name, python in pythons.items()}, strict=True
        )
        yield from _same(
            "nccl", {name: python.nccl or "own" for name, python in pythons.items()}, strict=True
        )
        yield from _same("driver", {name: facts.gpu.driver for name, facts in nodes.items()}, strict=False)


def check_interpreters(nodes: Mapping[str, InterpreterFacts]) -> Iterator[Check]:
    """Check only torch and Python, for this machine among `nodes`; nothing else is known about it."""
    if len(nodes) < 2:
        return
    yield from _same("torch", {name: python.torch for name, python in nodes.items()}, strict=True)
    pythons = {name: ".".join(map(str, major_minor(python.python))) for name, python in nodes.items()}
    yield from _same("python", pythons, strict=True)


def _same(what: str, said: Mapping[str, str | None], *, strict: bool) -> Iterator[Check]:
    found = {name: version for name, version in said.items() if version is not None}
    if len(found) < 2:
        return
    first, measure = next(iter(found.items()))
    fix = f"install {what} {measure} there, or `torchdeck nodes edit` names another Python of the node"
    tell = failed if strict else warning
    for name, version in found.items():
        if version == measure:
            yield ok(f"same {what}", name, f"{what} {version}")
        else:
            yield tell(f"same {what}", name, f"{what} is {version}, and {measure} on {first}", fix)


def _minor(python: Python) -> str:
    return ".".join(map(str, major_minor(python.version)))


# Check resources of nodes that may be in use: leased GPUs, and the rendezvous port.

ASK_LIMIT = 10.0
_LISTENING = 0.2
"""Seconds for which the port is opened as a test."""


class Owner(NodeData):
    """Holder of a node's device."""

    run_id: Text
    name: Text


def check_leases(
    nodes: Sequence[NodePlan],
    probe_sessions: Mapping[str, ProbeSession],
    homes: Mapping[str, str],
    *,
    queue: bool,
) -> Iterator[Check]:
    """Yield one check for each of `nodes` that is to lease devices held by another run.

    Args:
        nodes: nodes that are not this machine, whose leases are checked without a probe.
        probe_sessions: probe sessions with them, by name.
        homes: TORCHDECK_HOME of each, by name.
        queue: the run would wait for them.
    """
    leasing = [node for node in nodes if node.devices]

    def look(node: NodePlan) -> Check | None:
        try:
            home, devices = homes[node.name], list(node.devices)
            answer = probe_sessions[node.name].ask(ProbeRequest.OWNERS, ASK_LIMIT, home=home, devices=devices)
            with understood(node.name):
                owners = {key: Owner.model_validate(owner) for key, owner in answer["owners"].items()}
        except ProbeError as error:
            return failed("devices", node.name, str(error), "check the node, then try again")
        held = [Holder(device, owner.run_id, owner.name) for device, owner in owners.items()]
        return check_held(node.name, held, queue=queue) if held else None

    yield from (check for check in on_each(leasing, look, "leases") if check is not None)


def check_port_of(node: str, probe_session: ProbeSession, port: int) -> Check:
    """Check that a node that no other has to reach can listen on the port set by the config."""
    try:
        word = secrets.token_hex(WORD_LENGTH // 2)
        everywhere = "0.0.0.0"  # noqa: S104 - as torchrun does
        asked = {"address": everywhere, "port": port, "word": word, "seconds": _LISTENING}
        probe_session.ask(ProbeRequest.LISTEN, ASK_LIMIT, **asked)
    except ProbeError as error:
        fix = 'give distributed.rendezvous.port another, or "auto"'
        return failed("port", node, f"port {port} cannot be listened on: {error}", fix)
    return ok("port", node, f"port {port} is free")
