"""Ranks of one attempt that make the others wait, for the journal. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.agent.doctor.stragglers import StragglerWatch, sentence
from torchdeck.agent.gang import commands as do
from torchdeck.agent.gang import events as on


class Stragglers:
    """Reports of all nodes on when their ranks reached collectives."""

    def __init__(self) -> None:
        self._watch = StragglerWatch()
        self._nodes: dict[int, str] = {}
        self._errors: dict[str, float] = {}

    def arrived(self, event: on.Arrived, places: Sequence[str]) -> list[do.Command]:
        """Take in a node's reports; returns what is to be journaled.

        Args:
            event: the reports.
            places: the node of each rank, by the plan.
        """
        # under c10d torchrun numbers the nodes when they meet
        self._nodes |= {report.facts.rank: event.node for report in event.reports}
        self._errors[event.node] = event.error
        before = self._watch.announced
        if not self._watch.take(event.reports, len(places), 2 * max(self._errors.values())):
            return []
        now = self._watch.announced
        told: list[do.Command] = []
        if before is not None and (now is None or now.ranks != before.ranks):
            told.append(do.AnnounceStragglerOver(event.attempt, before.ranks))
        if now is not None:
            nodes = self._nodes if len(set(self._nodes.values())) > 1 else {}
            differs = tuple(difference.sentence for difference in now.differences)
            share, since = round(now.share, 3), round(now.since, 3)
            detail = sentence(now, nodes)
            told.append(
                do.AnnounceStraggler(event.attempt, now.ranks, share, since, now.step, detail, differs)
            )
        return told
