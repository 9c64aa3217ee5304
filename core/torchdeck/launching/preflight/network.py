"""Checks that ranks can meet: the port, and this host's own name."""

from __future__ import annotations

import errno
import itertools
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait

from torchdeck.contract.inventory import LOCALHOST, Inventory
from torchdeck.contract.plan.elastic import LOOPBACK
from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.contract.plan.slots import fill
from torchdeck.nodes.background import in_background
from torchdeck.plan.check import Check, failed, ok, warning

NAME_LIMIT = 1.0
"""Seconds that finding this host's own name may take before it is called slow."""


def check_port(port: int, node: str) -> Check:
    """Check that the configured port is free to listen on."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # a port just released is free, as for torch
        try:
            probe.bind(("", port))
            probe.listen(1)
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            return failed(
                "port", node, f"port {port} {why}", 'give distributed.rendezvous.port another, or "auto"'
            )
    return ok("port", node, f"port {port} is free")


def look_up_own_name() -> None:
    """Resolve this host's name as torchrun does: forward, then reverse.

    Raises:
        OSError: the name is not known.
    """
    name = socket.gethostname()
    socket.getaddrinfo(name, None)
    socket.getfqdn(name)


class HostNameCheck:
    """Resolves this host's own name concurrently with other checks: a resolver may hang for a minute."""

    def __init__(self, node: str, look_up: Callable[[], None] = look_up_own_name) -> None:
        self._node = node
        self._started = time.monotonic()
        self._looked_up = in_background([look_up], 1, "own host name")[0]

    def result(self, limit: float = NAME_LIMIT) -> Check:
        """Return the verdict, at the latest `limit` seconds after the start."""
        wait([self._looked_up], max(0.0, self._started + limit - time.monotonic()))
        name = socket.gethostname()
        fix = (
            f"add the line `127.0.1.1 {name}` to /etc/hosts; torchrun may wait a minute for it at each start"
        )
        if not self._looked_up.done():
            return warning(
                "host name",
                self._node,
                f"looking up this host's own name {name} takes more than {limit:g} s",
                fix,
            )
        if self._looked_up.exception() is not None:
            return warning("host name", self._node, f"this host's own name {name} does not resolve", fix)
        return ok("host name", self._node, f"host name {name} resolves")


_SHOWN = 3


def check_reach(names: list[str], inventory: Inventory) -> Check:
    """Check that all the nodes `names` exist, not only in a run file."""
    described = [node.name for node in map(inventory.find, names) if node is not None and node.described]
    if not described:
        here = names == [LOCALHOST]
        what = "every node is this machine" if here else f"{len(names)} nodes are known"
        return ok("nodes", names[0], what)
    more = f" and {len(described) - _SHOWN} more" if len(described) > _SHOWN else ""
    one = len(described) == 1
    what = (
        f"{', '.join(described[:_SHOWN])}{more} {'is' if one else 'are'} only described in [cluster], "
        "and cannot be reached from here"
    )
    fix = (
        "`torchdeck plan` shows what would run there and, with --export, writes a script for each node; "
        'distributed.nodes = ["localhost"] runs on this machine'
    )
    return failed("nodes", LOCALHOST, what, fix)  # this machine cannot reach them


# TCP ports open during a run, with their nodes and who can reach them: read from its plan.

_INTERFACE = "GLOO_SOCKET_IFNAME"
_LOOPBACK_INTERFACE = "lo"
_NCCL_RAS = 28_028
"""NCCL's default (NCCL_RAS_ADDR)."""


_OPEN_STORE = (
    "use a machine without other users, or one whose kernel has CONFIG_TCP_MD5SIG and shows /proc/net/tcp"
)


def check_ports(plan: LaunchPlan, why_open: str = "") -> Iterator[Check]:
    """List each node's listening ports; none is probed, as nothing listens yet.

    Args:
        plan: plan of the run.
        why_open: why the first node's kernel cannot close the store to other users; empty if it can.
    """
    if plan.rendezvous != "static" or (len(plan.nodes) > 1 and plan.kind != "recipe"):
        why_open = ""  # the store is open, which its description says
    for node in plan.all_nodes:
        if node in plan.spares:
            parts = [f"once it replaces another node: {'; '.join(_of_ranks(plan, node))}"]
        else:
            parts = list(_of_node(plan, node, why_open))
        closed = "no port is open to other machines. " if _is_closed(plan) else ""
        what = "; ".join(parts)
        what = f"{closed}{what[0].upper()}{what[1:]}"
        if why_open and node is plan.nodes[0]:
            yield warning("ports", node.name, what, _OPEN_STORE)
        else:
            yield ok("ports", node.name, what)


def _is_closed(plan: LaunchPlan) -> bool:
    """Return whether everything listens on the loopback interface."""
    alone = len(plan.all_nodes) == 1 and plan.rendezvous == "static"
    return alone and plan.nodes[0].env.get(_INTERFACE) == _LOOPBACK_INTERFACE


def _of_node(plan: LaunchPlan, node: NodePlan, why_open: str) -> Iterator[str]:
    if node is plan.nodes[0]:
        if len(plan.all_nodes) > 1:  # spares are followers, too
            yield f"leading agent: a random port of {node.address}, for agents that prove the run's token"
        yield _store(plan, node, why_open)
    yield from _of_ranks(plan, node)


def _store(plan: LaunchPlan, node: NodePlan, why_open: str) -> str:
    if plan.rendezvous != "static":
        return f"store of c10d: {_port(plan)} of every address, open to everyone who reaches the machine"
    if len(plan.nodes) == 1:
        users = (
            f"open to all users of the machine: {why_open}" if why_open else "for processes of your user only"
        )
        return f"store: {_port(plan)} of {LOOPBACK}, {users}"
    if plan.kind == "recipe":
        users = f", and open to all users of {node.name}: {why_open}" if why_open else ""
        return f"store: {_port(plan)} of {node.address}, for nodes that prove a key of the run{users}"
    reachable = "open to everyone who reaches that address: a script's ranks are not authenticated"
    return f"store: {_port(plan)} of {node.address}, {reachable}"


def _of_ranks(plan: LaunchPlan, node: NodePlan) -> Iterator[str]:
    yield _ranks(node)
    if plan.backend == "nccl":
        yield f"NCCL's status: port {_NCCL_RAS} of {LOOPBACK}, for all users of the machine, to read"


def _ranks(node: NodePlan) -> str:
    interface = fill(node.env.get(_INTERFACE, ""), {})
    if interface == _LOOPBACK_INTERFACE:
        return (
            f"ranks: random ports of {LOOPBACK}, open to all users of the machine, because torch does "
            "not authenticate peers"
        )
    where = f"interface {interface}" if interface else "the address of the host's name"
    return (
        f"ranks: random ports on {where}, open to everyone who reaches it, because torch does not "
        "authenticate peers"
    )


def _port(plan: LaunchPlan) -> str:
    words = dict(itertools.pairwise(plan.nodes[0].torchrun))
    port = words.get("--master-port") or words.get("--rdzv-endpoint", "").rpartition(":")[2]
    return f"port {port}" if port.isdigit() else "a random port"
