"""Check resources of nodes that may be in use: leased GPUs, and the rendezvous port."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from torchdeck.agent.probe.reachability import WORD_LENGTH
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.plan.launch_plan import NodePlan
from torchdeck.launching.preflight.devices import Holder, check_held
from torchdeck.nodes.probe.facts import Said, Text
from torchdeck.nodes.probe.probe_session import ProbeError, ProbeSession, understood
from torchdeck.plan.check import Check, failed, ok

ASK_LIMIT = 10.0
_LISTENING = 0.2
"""Seconds for which the port is opened as a test."""


class Owner(Said):
    """Holder of a node's device."""

    run_id: Text
    name: Text


def check_leases(
    nodes: Sequence[NodePlan], talks: Mapping[str, ProbeSession], homes: Mapping[str, str], *, queue: bool
) -> Iterator[Check]:
    """Yield one check for each of `nodes` that is to lease devices held by another run.

    Args:
        nodes: nodes that are not this machine, whose leases are checked without a probe.
        talks: probe sessions with them, by name.
        homes: TORCHDECK_HOME of each, by name.
        queue: the run would wait for them.
    """
    leasing = [node for node in nodes if node.devices]

    def look(node: NodePlan) -> Check | None:
        try:
            home, devices = homes[node.name], list(node.devices)
            answer = talks[node.name].ask(ProbeRequest.OWNERS, ASK_LIMIT, home=home, devices=devices)
            with understood(node.name):
                owners = {key: Owner.model_validate(owner) for key, owner in answer["owners"].items()}
        except ProbeError as error:
            return failed("devices", node.name, str(error), "look at the node, and try again")
        held = [Holder(device, owner.run_id, owner.name) for device, owner in owners.items()]
        return check_held(node.name, held, queue=queue) if held else None

    with ThreadPoolExecutor(max(1, len(leasing)), thread_name_prefix="leases") as pool:
        yield from (check for check in pool.map(look, leasing) if check is not None)


def check_port_of(node: str, talk: ProbeSession, port: int) -> Check:
    """Check that a node that no other has to reach can listen on the port set by the config."""
    try:
        word = secrets.token_hex(WORD_LENGTH // 2)
        talk.ask(ProbeRequest.LISTEN, ASK_LIMIT, address="0.0.0.0", port=port, word=word, seconds=_LISTENING)  # noqa: S104 - as torchrun does
    except ProbeError as error:
        fix = 'give distributed.rendezvous.port another, or "auto"'
        return failed("port", node, f"port {port} cannot be listened on: {error}", fix)
    return ok("port", node, f"port {port} is free")
