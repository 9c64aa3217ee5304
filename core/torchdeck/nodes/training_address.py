"""Which interface and address of a node its ranks are reached by: as the node inventory says, else the
kernel.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from torchdeck.config.values.host_names import host_fault
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.facts import Interface, NodeFacts


class TrainingAddressError(Refusal):
    """No address can be chosen; `what` names the node."""

    page = "machines#the-node-inventory"

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what, fix=fix)


class TrainingAddress(NamedTuple):
    """Where the other nodes reach a node."""

    address: str
    interface: str
    """What GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME name; empty where nothing was said of it."""


def training_address(name: str, entry: NodeEntry, facts: NodeFacts) -> TrainingAddress:
    """The address and interface of a node that its peers connect to.

    Args:
        name: of the node.
        entry: `training_address` and `interface` in it win.
        facts: the node's interfaces, and the ways it takes to its peers.

    Raises:
        TrainingAddressError: the entry names what the node does not have, it knows no way to any peer, or it
            says a name that is none.
    """
    found = _chosen(name, entry, facts)
    for said in filter(None, found):  # of the node's own saying, on its way into commands and environments
        if fault := host_fault(said):
            raise TrainingAddressError(
                f"node {name} says {said!r}, which is neither an address nor an interface: {fault}",
                "look at the node: its answer is not that of a network",
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
    """What the kernel takes to most of the peers; the first of several."""
    ways = [route for route in facts.routes if not route.error and not _is_loopback(route.address)]
    if not ways:
        why = next((f" ({route.peer}: {route.error})" for route in facts.routes if route.error), "")
        raise TrainingAddressError(
            f"node {name} knows no way to the other nodes{why}",
            f"`torchdeck nodes edit {name}` gives it a --training-address or an --interface",
        )
    found = [(route.address, route.interface) for route in ways]
    return TrainingAddress(*max(dict.fromkeys(found), key=found.count))


def _best_address(name: str, interface: Interface) -> str:
    """IPv4 first: gloo and most clusters' rules know that best."""
    addresses = sorted(interface.addresses, key=lambda address: ":" in address)
    if not addresses:
        raise TrainingAddressError(
            f"interface {interface.name} of node {name} has no address",
            f"bring it up there, or `torchdeck nodes edit {name} --interface …` names another",
        )
    return addresses[0]


def _owner(address: str, facts: NodeFacts) -> str:
    """The interface that has `address`; empty for a name, or an address of somebody in between."""
    return next((item.name for item in facts.interfaces if address in item.addresses), "")


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
