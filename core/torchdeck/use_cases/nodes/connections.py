"""Measures the routes between nodes: every node connects to every other, all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.background import on_each
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.connections import Connected, connect_all
from torchdeck.nodes.probe.facts import facts_from
from torchdeck.nodes.probe.probe_session import ProbeSession
from torchdeck.nodes.probe.probing import open_probe_session
from torchdeck.nodes.training_address import training_address
from torchdeck.use_cases.ui import Ui

LIMIT = 15.0
"""Seconds for a node to connect and to respond."""
SIZE = 8 * 2**20
"""Bytes sent over each route."""
AT_ONCE = 8
T = TypeVar("T")


@dataclass(frozen=True)
class Measured:
    """Result of a measurement."""

    names: tuple[str, ...]
    """Node names, in the order of rows and columns."""
    ways: Mapping[tuple[str, str], Connected] = field(default_factory=dict)
    """Routes by source and target."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """Nodes that could not be queried, with the reason."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Address by which the others connect to each node."""

    def reason(self, source: str, target: str) -> str:
        """Return why there is no route between two nodes, as a sentence; empty if there is one."""
        if source == target:
            return ""
        for name in (source, target):
            if name in self.silent:
                return self.silent[name]
        way = self.ways.get((source, target))
        if way is None:
            return f"{source} did not report whether it can connect to {target}"
        if way.ok:
            return ""
        return f"{source} cannot connect to {target} ({self.addresses[target]}, port {way.port}): {way.error}"


def measure(names: Sequence[str], home: Path, ui: Ui, size: int = SIZE) -> Measured:
    """Connect to all nodes, get their addresses, and let each connect to every other.

    Args:
        names: nodes in the inventory.
        home: TORCHDECK_HOME.
        ui: gets a note of each step.
        size: bytes for the bandwidth test.

    Raises:
        ConfigError: the inventory cannot be read.
        ProbeError: a node stopped responding.
    """
    connector = ui.connector(home)
    node_inventory = connector.node_inventory()
    entries = {name: node_inventory.nodes[name] for name in names if name in node_inventory.nodes}
    probe_sessions: dict[str, ProbeSession] = {}
    addresses: dict[str, str] = {}
    silent = {name: f"{name} is not in the node inventory" for name in names if name not in entries}
    with ExitStack() as stack:
        ui.note(f"connecting to {len(entries)} nodes")
        for name, found in _each(list(entries), lambda name: _open(name, entries[name], connector)):
            if isinstance(found, str):
                silent[name] = found
            else:
                closing, probe_sessions[name] = found
                stack.enter_context(closing)
        hosts = _hosts(connector, list(probe_sessions))
        for name, said in _each(
            list(probe_sessions), lambda name: _address(name, entries[name], probe_sessions[name], hosts)
        ):
            if said[0]:
                addresses[name] = said[0]
            else:
                silent[name] = said[1]
        known = {name: probe_sessions[name] for name in addresses}
        ui.note(f"measuring {len(known) * (len(known) - 1)} ways")
        ways = connect_all(known, addresses, size=size) if len(known) > 1 else []
    return Measured(tuple(names), {(way.source, way.target): way for way in ways}, silent, addresses)


def _each(names: Sequence[str], call: Callable[[str], T]) -> list[tuple[str, T]]:
    return list(zip(names, on_each(names, call, "measuring", AT_ONCE), strict=True))


def _open(name: str, entry: NodeEntry, connector: Connector) -> tuple[ExitStack, ProbeSession] | str:
    """Return a probe session with a node and its exit stack, or why there is none."""
    stack = ExitStack()
    try:
        return stack, stack.enter_context(open_probe_session(name, entry, connector.connect, LIMIT))
    except Refusal as error:
        stack.close()
        return str(error)


def _hosts(connector: Connector, names: Sequence[str]) -> list[str]:
    """Return the SSH host of each node: nodes use the same address to reach each other."""
    return [connector.target(name).host for name in names]


def _address(
    name: str, entry: NodeEntry, probe_session: ProbeSession, hosts: Sequence[str]
) -> tuple[str, str]:
    """Return the address by which others reach the node, or an empty one and why it is unknown."""
    try:
        answer = probe_session.ask(ProbeRequest.FACTS, LIMIT, home=entry.home, folders=[], peers=list(hosts))
        return training_address(name, entry, facts_from(name, answer)).address, ""
    except Refusal as error:
        return "", str(error)
