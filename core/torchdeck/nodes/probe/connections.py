"""Let every node connect to every other, on ports such as ranks take, and measure the connections."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from torchdeck.agent.probe.network import WORD_LENGTH
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.nodes.probe.probe_session import ProbeError, ProbeSession, understood

LIMIT = 5.0
"""Timeout in seconds for one connection; packets dropped by a firewall are never answered."""
ASK_LIMIT = 20.0


@dataclass(frozen=True)
class Connected:
    """Connection from one node to another."""

    source: str
    target: str
    port: int
    ok: bool
    latency: float | None
    """Round-trip time in seconds."""
    bandwidth: float | None
    """Bytes per second; None if it was not measured."""
    error: str


def connect_all(
    sessions: Mapping[str, ProbeSession],
    addresses: Mapping[str, str],
    *,
    port: int | None = None,
    size: int = 0,
) -> list[Connected]:
    """Connect every node to every other, all at once.

    Args:
        sessions: probe session with each node, by name, in the order of node ranks.
        addresses: address at which the others reach each node.
        port: rendezvous port on the first node, if set by the config; else all ports are ephemeral.
        size: bytes to send for bandwidth; 0 for none.

    Returns:
        Every ordered pair; no node reaches one that cannot listen, and its message is included.

    Raises:
        ProbeError: a node did not answer.
    """
    word = secrets.token_hex(WORD_LENGTH // 2)
    first = next(iter(sessions))
    with ThreadPoolExecutor(max(1, len(sessions)), thread_name_prefix="connections") as pool:

        def listen(name: str) -> int | str:
            wanted = port if port is not None and name == first else 0
            try:
                given = {"address": addresses[name], "port": wanted, "word": word, "seconds": ASK_LIMIT}
                answer = sessions[name].ask(ProbeRequest.LISTEN, ASK_LIMIT, **given)
                with understood(name):
                    return int(answer["port"])
            except ProbeError as error:
                return str(error)

        listening = dict(zip(sessions, pool.map(listen, sessions), strict=True))

        def reach(name: str) -> list[Connected]:
            peers = [
                {"node": peer, "address": addresses[peer], "port": found}
                for peer, found in listening.items()
                if peer != name and isinstance(found, int)
            ]
            answer = sessions[name].ask(
                ProbeRequest.REACH, ASK_LIMIT, peers=peers, word=word, limit=LIMIT, size=size
            )
            with understood(name):
                return [_connected(name, item, listening) for item in answer["reached"]]

        found = [item for items in pool.map(reach, sessions) for item in items]
    deaf = [
        Connected(name, peer, 0, ok=False, latency=None, bandwidth=None, error=why)
        for peer, why in listening.items()
        if isinstance(why, str)
        for name in sessions
        if name != peer
    ]
    return [*found, *deaf]


def _connected(source: str, item: Mapping[str, Any], listening: Mapping[str, int | str]) -> Connected:
    target = str(item["node"])
    port = listening[target]
    return Connected(
        source,
        target,
        port if isinstance(port, int) else 0,
        ok=item["ok"] is True,
        latency=None if item["latency"] is None else float(item["latency"]),
        bandwidth=None if item["bandwidth"] is None else float(item["bandwidth"]),
        error=str(item["error"]),
    )
