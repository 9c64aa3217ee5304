"""Measuring the ways between nodes: every node connects to every other, all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.connections import Connected, connect_all
from torchdeck.nodes.probe.facts import facts_from
from torchdeck.nodes.probe.probe_session import ProbeSession
from torchdeck.nodes.probe.probing import open_probe_session
from torchdeck.nodes.training_address import training_address

LIMIT = 15.0
"""Seconds for a node to be reached and to answer."""
SIZE = 8 * 2**20
"""Bytes that go over each way."""
AT_ONCE = 8
T = TypeVar("T")


@dataclass(frozen=True)
class Measured:
    """What came of it."""

    names: tuple[str, ...]
    """The nodes, in the order of rows and columns."""
    ways: Mapping[tuple[str, str], Connected] = field(default_factory=dict)
    """By source and target."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """Nodes that could not be asked, and why."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """What the others reach each by."""

    def reason(self, source: str, target: str) -> str:
        """Why there is no way from one to the other, as a sentence; empty where there is one."""
        if source == target:
            return ""
        for name in (source, target):
            if name in self.silent:
                return self.silent[name]
        way = self.ways.get((source, target))
        if way is None:
            return f"{source} did not say whether it reaches {target}"
        if way.ok:
            return ""
        return f"{source} cannot connect to {target} ({self.addresses[target]}, port {way.port}): {way.error}"


def measure(
    names: Sequence[str], reach: Connector, progress: Callable[[str], None], size: int = SIZE
) -> Measured:
    """Reach all, ask each for its address, and let each connect to each other.

    Args:
        names: of nodes in the book.
        reach: how they are reached.
        progress: told what is waited for; what it raises ends it.
        size: bytes for the bandwidth.

    Raises:
        ConfigError: the book cannot be read.
        ProbeError: a node stopped answering.
    """
    node_inventory = reach.node_inventory()
    entries = {name: node_inventory.nodes[name] for name in names if name in node_inventory.nodes}
    talks: dict[str, ProbeSession] = {}
    addresses: dict[str, str] = {}
    silent = {name: f"{name} is not in the node inventory" for name in names if name not in entries}
    with ExitStack() as stack:
        progress(f"connecting to {len(entries)} nodes")
        for name, found in _each(list(entries), lambda name: _open(name, entries[name], reach)):
            if isinstance(found, str):
                silent[name] = found
            else:
                closing, talks[name] = found
                stack.enter_context(closing)
        hosts = _hosts(reach, list(talks))
        for name, said in _each(list(talks), lambda name: _address(name, entries[name], talks[name], hosts)):
            if said[0]:
                addresses[name] = said[0]
            else:
                silent[name] = said[1]
        known = {name: talks[name] for name in addresses}
        progress(f"measuring {len(known) * (len(known) - 1)} ways")
        ways = connect_all(known, addresses, size=size) if len(known) > 1 else []
    return Measured(tuple(names), {(way.source, way.target): way for way in ways}, silent, addresses)


def _each(names: Sequence[str], call: Callable[[str], T]) -> list[tuple[str, T]]:
    with ThreadPoolExecutor(max(1, min(AT_ONCE, len(names))), thread_name_prefix="measuring") as pool:
        return list(zip(names, pool.map(call, names), strict=True))


def _open(name: str, entry: NodeEntry, reach: Connector) -> tuple[ExitStack, ProbeSession] | str:
    """A conversation with a node and what closes it, or why there is none."""
    stack = ExitStack()
    try:
        return stack, stack.enter_context(open_probe_session(name, entry, reach.connect, LIMIT))
    except Refusal as error:
        stack.close()
        return str(error)


def _hosts(reach: Connector, names: Sequence[str]) -> list[str]:
    """What SSH connects to for each: the way there is the way that the nodes take to each other."""
    return [reach.target(name).host for name in names]


def _address(
    name: str, entry: NodeEntry, probe_session: ProbeSession, hosts: Sequence[str]
) -> tuple[str, str]:
    """What the others reach it by, or empty and why that is not known."""
    try:
        answer = probe_session.ask(ProbeRequest.FACTS, LIMIT, home=entry.home, folders=[], peers=list(hosts))
        return training_address(name, entry, facts_from(name, answer)).address, ""
    except Refusal as error:
        return "", str(error)
