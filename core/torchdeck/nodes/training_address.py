"""Interface and address at which a node's ranks are reached: set by the node inventory, else chosen by the
kernel.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from torchdeck.config.values.node_names import host_fault
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.facts import Interface, NodeFacts


class TrainingAddressError(Refusal):
    """No address can be chosen; `what` names the node."""

    page = "machines#the-node-inventory"

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what, fix=fix)


class TrainingAddress(NamedTuple):
    """Address at which the other nodes reach a node."""

    address: str
    interface: str
    """Value of GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME; empty if not configured."""


def training_address(name: str, entry: NodeEntry, facts: NodeFacts) -> TrainingAddress:
    """Return the address and interface of a node that its peers connect to.

    Args:
        name: name of the node.
        entry: its `training_address` and `interface` take precedence.
        facts: the node's interfaces, and its routes to its peers.

    Raises:
        TrainingAddressError: the entry names what the node does not have, it has no route to any peer, or it
            reports an invalid name.
    """
    found = _chosen(name, entry, facts)
    for said in filter(None, found):  # reported by the node, and used in commands and environments
        if fault := host_fault(said):
            raise TrainingAddressError(
                f"node {name} reports {said!r}, which is neither an address nor an interface: {fault}",
                "check the node: its answer is invalid",
            )
    return found


def _chosen(name: str, entry: NodeEntry, facts: NodeFacts) -> TrainingAddress:
    by_name = {interface.name: interface for interface in facts.interfaces}
    if entry.interface is not None and entry.interface not in by_name:
        raise TrainingAddressError(
            f"node {name} has no interface {entry.interface!r}: it has {', '.join(sorted(by_name))}",
            f"`torchdeck nodes edit {name} --interface …` names one of them, and `--unset interface` takes "
            "that of the way to the other nodes",
        )
    if entry.training_address is not None:
        return TrainingAddress(
            entry.training_address, entry.interface or _owner(entry.training_address, facts)
        )
    if entry.interface is not None:
        return TrainingAddress(_best_address(name, by_name[entry.interface]), entry.interface)
    return _routed(name, facts)


def _routed(name: str, facts: NodeFacts) -> TrainingAddress:
    """Return the address that the kernel uses for most of the peers; the first of several."""
    ways = [route for route in facts.routes if not route.error and not _is_loopback(route.address)]
    if not ways:
        why = next((f" ({route.peer}: {route.error})" for route in facts.routes if route.error), "")
        raise TrainingAddressError(
            f"node {name} has no route to the other nodes{why}",
            f"`torchdeck nodes edit {name}` gives it a --training-address or an --interface",
        )
    found = [(route.address, route.interface) for route in ways]
    return TrainingAddress(*max(dict.fromkeys(found), key=found.count))


def _best_address(name: str, interface: Interface) -> str:
    """Return the address, preferring IPv4: it is best supported by gloo and most clusters' rules."""
    addresses = sorted(interface.addresses, key=lambda address: ":" in address)
    if not addresses:
        raise TrainingAddressError(
            f"interface {interface.name} of node {name} has no address",
            f"bring it up there, or `torchdeck nodes edit {name} --interface …` names another",
        )
    return addresses[0]


def _owner(address: str, facts: NodeFacts) -> str:
    """Return the interface that has `address`; empty for a name, or an address of an intermediate host."""
    return next((item.name for item in facts.interfaces if address in item.addresses), "")


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
