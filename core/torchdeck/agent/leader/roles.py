"""Role of an agent in a gang of several nodes: the first node's leads, the others follow."""

from __future__ import annotations

import time
from pathlib import Path

from torchdeck.agent.attempt.handover import Handover
from torchdeck.agent.gang.recovered_state import session_of
from torchdeck.agent.leader.follower import Follower
from torchdeck.agent.leader.leader import Leader
from torchdeck.agent.leader.listener import Listener, ListenError, listen
from torchdeck.agent.role import Role
from torchdeck.contract.journal import JournalWriter, read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan


class JoinError(Exception):
    """An agent cannot take part in its gang; the message says why."""


def join(layout: RunLayout, plan: LaunchPlan, name: str, journal: JournalWriter, handover: Handover) -> Role:
    """Lead, or follow the leader.

    The leader listens on its node's address for training and journals `listening`; its port stays the same
    after a restart; every session of the run journals it again.

    Raises:
        JoinError: no token was handed over, a follower does not know its leader, or the leader cannot listen.
    """
    if not handover.token:
        raise JoinError(f"the agent of {name} got no token, but the run has {len(plan.all_nodes)} nodes")
    token, now = handover.token.encode(), time.monotonic()
    first = plan.nodes[0]
    if name != first.name:
        if handover.leader is None:
            raise JoinError(f"the agent of {name} got no address of the leader")
        return Follower(plan, name, journal, layout.root.name, token, handover.leader, now)
    before, is_journaled = _port_before(layout.node(name).journal)
    try:
        found = listen(first.address, before)
    except ListenError as error:
        raise JoinError(str(error)) from error
    port: int = found.getsockname()[1]
    if not is_journaled or port != before:
        journal.append("listening", address=first.address, port=port)
    others = frozenset(node.name for node in plan.all_nodes[1:])
    return Leader(plan, name, journal, Listener(found, token, layout.root.name, others), now)


def _port_before(journal: Path) -> tuple[int, bool]:
    """Return the port of an earlier leader, 0 for none; and whether it listened in the run's last session."""
    port, is_of_last, session = 0, False, 0
    for event in read_journal(journal):
        if event.name == "finished" or (event.name == "agent_started" and session_of(event) > session):
            is_of_last, session = False, max(session, session_of(event))
        elif event.name == "listening":
            found = event.fields.get("port")
            port, is_of_last = (found, True) if isinstance(found, int) else (port, is_of_last)
    return port, is_of_last
