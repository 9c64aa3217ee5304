"""Which processes of a run are alive, by the identities that its files name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchdeck.contract.processes import ProcessIdentity, boot_id, processes_of_run
from torchdeck.runs.links import UP, Links, LinkState
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.state import Liveness, NodeLiveness


def look(
    run_id: str,
    history: RunHistory,
    heartbeats: Mapping[str, Mapping[str, Any]],
    links: Links | None = None,
    now: float = 0.0,
    *,
    damaged: bool = False,
) -> Liveness:
    """Look at /proc for every process of this machine that `history` and `heartbeats` name.

    Of nodes in `links` it is taken what they said last, if that was heard of lately (`now`, unix seconds).

    If the journals are `damaged`, processes that they do not name are looked for, too.

    Read the journals again after this and before folding: what a process that this call finds dead has
    written is then complete, so its end is never mistaken for its loss.
    """
    known = [*history.agents.values(), *history.holders.values()]
    nodes = {} if links is None else _linked(links, now)
    for node in {*history.agents, *history.holders, *heartbeats} - nodes.keys():
        beat = heartbeats.get(node, {})
        torchrun = ProcessIdentity.from_json(beat.get("torchrun"))
        holder = ProcessIdentity.from_json(beat.get("holder"))
        agent = ProcessIdentity.from_json(beat.get("agent"))
        known += [identity for identity in (torchrun, holder, agent) if identity is not None]
        nodes[node] = NodeLiveness(
            agent=_alive(agent) or _alive(history.agents.get(node)),
            holder=_alive(holder) or _alive(history.holders.get(node)),
            torchrun=_alive(torchrun),
        )
    if history.controller is not None:
        known.append(history.controller)
    boot = boot_id()
    controller = _alive(history.controller)
    # orphans of killed supervisors are found by their environment, which costs a walk over /proc
    named = controller or any(node.any for node in nodes.values())
    return Liveness(
        controller=controller,
        nodes=nodes,
        orphans=(damaged or _may_have_orphans(history)) and not named and bool(processes_of_run(run_id)),
        same_boot=not known or any(identity.boot == boot for identity in known),
        followed_until=None if links is None or controller or links.is_fresh(now) else links.time,
    )


def _linked(links: Links, now: float) -> dict[str, NodeLiveness]:
    fresh = links.is_fresh(now)
    return {name: _over(link, fresh=fresh) for name, link in links.nodes.items()}


def _over(link: LinkState, *, fresh: bool) -> NodeLiveness:
    if not fresh or link.state != UP or link.agent_alive is None:
        return NodeLiveness(link=link, known=False)
    return NodeLiveness(link.agent_alive, link.holder_alive is True, link.torchrun_alive is True, link)


def _may_have_orphans(history: RunHistory) -> bool:
    return bool(history.attempts) and history.end is None


def _alive(identity: ProcessIdentity | None) -> bool:
    return identity is not None and identity.is_alive()
