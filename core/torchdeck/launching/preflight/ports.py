"""TCP ports open during a run, with their nodes and who can reach them: read from its plan."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.contract.plan.slots import fill
from torchdeck.contract.plan.smaller_plan import LOOPBACK
from torchdeck.plan.check import Check, ok

_INTERFACE = "GLOO_SOCKET_IFNAME"
_LOOPBACK_INTERFACE = "lo"
_NCCL_RAS = 28_028
"""NCCL's default (NCCL_RAS_ADDR)."""


def check_ports(plan: LaunchPlan) -> Iterator[Check]:
    """List each node's listening ports; nothing is probed, as nothing listens yet."""
    for node in plan.all_nodes:
        if node in plan.spares:
            parts = [f"once it replaces another node: {'; '.join(_of_ranks(plan, node))}"]
        else:
            parts = list(_of_node(plan, node))
        closed = "no port is open to other machines. " if _is_closed(plan) else ""
        what = "; ".join(parts)
        yield ok("ports", node.name, f"{closed}{what[0].upper()}{what[1:]}")


def _is_closed(plan: LaunchPlan) -> bool:
    """Return whether everything listens on the loopback interface."""
    alone = len(plan.all_nodes) == 1 and plan.rendezvous == "static"
    return alone and plan.nodes[0].env.get(_INTERFACE) == _LOOPBACK_INTERFACE


def _of_node(plan: LaunchPlan, node: NodePlan) -> Iterator[str]:
    if node is plan.nodes[0]:
        if len(plan.all_nodes) > 1:  # spares are followers, too
            yield f"leading agent: a random port of {node.address}, for agents that prove the run's token"
        yield _store(plan, node)
    yield from _of_ranks(plan, node)


def _store(plan: LaunchPlan, node: NodePlan) -> str:
    if plan.rendezvous != "static":
        return f"store of c10d: {_port(plan)} of every address, for all who reach the machine"
    if len(plan.nodes) == 1:
        return f"store: {_port(plan)} of {LOOPBACK}, for processes of your user alone"
    if plan.kind == "recipe":
        return f"store: {_port(plan)} of {node.address}, for nodes that prove a key of the run"
    reachable = "for all who reach that address: a script's ranks prove nothing"
    return f"store: {_port(plan)} of {node.address}, {reachable}"


def _of_ranks(plan: LaunchPlan, node: NodePlan) -> Iterator[str]:
    yield _ranks(node)
    if plan.backend == "nccl":
        yield f"NCCL's status: port {_NCCL_RAS} of {LOOPBACK}, for all users of the machine, to read"


def _ranks(node: NodePlan) -> str:
    interface = fill(node.env.get(_INTERFACE, ""), {})
    if interface == _LOOPBACK_INTERFACE:
        return f"ranks: random ports of {LOOPBACK}, for all users of the machine, as torch asks no one"
    where = f"interface {interface}" if interface else "the address of the host's name"
    return f"ranks: random ports on {where}, for all who reach it, as torch asks no one"


def _port(plan: LaunchPlan) -> str:
    words = dict(itertools.pairwise(plan.nodes[0].torchrun))
    port = words.get("--master-port") or words.get("--rdzv-endpoint", "").rpartition(":")[2]
    return f"port {port}" if port.isdigit() else "a random port"
