"""Which nodes are ready and hold their devices, before a run's first attempt. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.agent.gang.events import LeasesHeld


class ReadyBarrier:
    """All nodes or none: two runs that each hold half of what both want would wait for ever."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes = frozenset(nodes)
        self._ready: set[str] = set()
        self._leased: set[str] = set()
        self._refusal: LeasesHeld | None = None

    def ready(self, node: str) -> bool:
        """A node can take orders; whether all can."""
        self._ready.add(node)
        return self._ready >= self._nodes

    def change(self, nodes: Sequence[str]) -> bool:
        """Other nodes are to be ready; whether all of them are."""
        self._nodes = frozenset(nodes)
        return self._ready >= self._nodes

    def granted(self, node: str) -> bool:
        """A node holds its devices; whether all do."""
        self._leased.add(node)
        return self._leased >= self._nodes

    def refused(self, event: LeasesHeld) -> tuple[list[str], bool]:
        """(nodes that give back what they hold, whether it is news whose the devices are)."""
        holding, news = sorted(self._leased), event != self._refusal
        self._leased.clear()
        self._refusal = event
        return holding, news


def refusal_text(event: LeasesHeld) -> str:
    """Describe which run has the devices, and what to do."""
    whose = "; ".join(
        f"device {held.get('device')} is held by run {held.get('run_id')} ({held.get('name')})"
        for held in event.held_by
    )
    return f"{whose}. Wait for it with --queue, or choose other devices"
