"""All that is known about the ranks of one attempt. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from torchdeck.agent.doctor.collectives import GroupJoin, Waiting, joined, waiting_for_peers
from torchdeck.agent.doctor.evidence import Collective, RankEvidence
from torchdeck.telemetry.doctor.main_thread import activity_of
from torchdeck.telemetry.doctor.thread_stacks import Place

_BACKWARD = "/torch/autograd/"
"""File of the innermost frame during a backward pass, outside hooks in Python."""


class Case:
    """All that is known about the ranks of one attempt.

    Attributes:
        ranks: evidence by rank.
        nodes: rank → node, empty if there is one node only.
        groups: process groups, joined over the ranks.
        waiting: ranks that wait in a collective for others → what they wait in.
    """

    def __init__(self, ranks: Mapping[int, RankEvidence], nodes: Mapping[int, str]) -> None:
        self.ranks = ranks
        self.nodes = nodes if len(set(nodes.values())) > 1 else {}
        self.groups: list[GroupJoin] = joined(ranks)
        found = [waiting for group in self.groups for waiting in group.waiting()]
        self.waiting: dict[int, Waiting] = {}
        for waiting in [*found, *waiting_for_peers(ranks)]:
            self.waiting.setdefault(waiting.rank, waiting)

    def waits(self, rank: int) -> bool:
        """Return whether a rank waits for others, as far as its collectives and its stack tell."""
        return rank in self.waiting or activity(self.ranks[rank]) == "waiting"

    def group(self, waiting: Waiting) -> GroupJoin | None:
        names = [group for group in self.groups if waiting in group.waiting()]
        return names[0] if names else None


def is_in(found: RankEvidence, call: Collective) -> bool:
    """Return whether a rank's present stack is that of a collective.

    The call is the group's newest and not done, and the stack is in a collective or in a backward pass, which
    DDP calls collectives in. The stack of a call that did not wait is not known any more.
    """
    newest = max(
        (own.sequence for own in found.collectives if own.group == call.group and not own.p2p), default=0
    )
    if call.done or call.sequence < newest or not found.frames:
        return False
    return activity(found) == "waiting" or _BACKWARD in found.frames[0].file


def activity(found: RankEvidence) -> str:
    """Return what the rank's stack shows."""
    return activity_of([Place(*frame) for frame in found.frames])
