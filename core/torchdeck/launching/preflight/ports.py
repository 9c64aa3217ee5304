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
    for node in plan.nodes:
        parts = list(_alone(plan, node) if len(plan.nodes) == 1 else _among_nodes(plan, node))
        closed = "no port is open to other machines. " if _is_closed(plan) else ""
        yield ok("ports", node.name, f"{closed}{'; '.join(parts)}")


def _is_closed(plan: LaunchPlan) -> bool:
    """Return whether everything listens on the loopback interface."""
    alone = len(plan.nodes) == 1 and plan.rendezvous == "static"
    return alone and plan.nodes[0].env.get(_INTERFACE) == _LOOPBACK_INTERFACE


def _alone(plan: LaunchPlan, node: NodePlan) -> Iterator[str]:
    if plan.rendezvous == "static":
        yield f"Store: {_port(plan)} of {LOOPBACK}, for processes of your user alone"
    else:
        yield _store_of_torch(plan)
    yield from _of_ranks(plan, node)


def _among_nodes(plan: LaunchPlan, node: NodePlan) -> Iterator[str]:
    if node is plan.nodes[0]:
        yield f"Leading agent: a random port of {node.address}, for agents that prove the run's token"
        if plan.rendezvous != "static":
            yield _store_of_torch(plan)
        elif plan.kind == "recipe":
            yield f"store: {_port(plan)} of {node.address}, for nodes that prove a key of the run"
        else:
            yield (
                f"store: {_port(plan)} of {node.address}, for all who reach that address: a script's ranks "
                "prove nothing"
            )
    yield from _of_ranks(plan, node)


def _store_of_torch(plan: LaunchPlan) -> str:
    return f"store of c10d: {_port(plan)} of every address, for all who reach the machine"


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
