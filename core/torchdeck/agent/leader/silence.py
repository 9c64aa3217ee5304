"""Since when each node is silent, and what that has led to. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from torchdeck.contract.run_states import TextEnum


class NodeNews(TextEnum):
    """Change of a node's state; journaled as `node_silent`, and so on."""

    SILENT = "silent"
    BACK = "back"
    LOST = "lost"


class Silence(NamedTuple):
    """News of a node's silence."""

    node: str
    what: NodeNews
    seconds: float


class SilenceWatch:
    """Flags nodes after `flag` seconds without a word and gives them up after `grace`."""

    def __init__(self, nodes: Iterable[str], flag: float, grace: float, now: float) -> None:
        self._flag, self._grace = min(flag, grace), grace
        self._heard = dict.fromkeys(nodes, now)
        self._flagged: set[str] = set()
        self._lost: set[str] = set()

    def heard(self, node: str, now: float) -> list[Silence]:
        """A node spoke."""
        if node not in self._heard:
            return []
        seconds, self._heard[node] = now - self._heard[node], now
        self._lost.discard(node)
        if node not in self._flagged:
            return []
        self._flagged.remove(node)
        return [Silence(node, NodeNews.BACK, seconds)]

    def look(self, now: float) -> list[Silence]:
        """News that time alone brings."""
        found = []
        for node, heard in self._heard.items():
            if now - heard >= self._flag and node not in self._flagged:
                self._flagged.add(node)
                found.append(Silence(node, NodeNews.SILENT, now - heard))
            if now - heard >= self._grace and node not in self._lost:
                self._lost.add(node)
                found.append(Silence(node, NodeNews.LOST, now - heard))
        return found

    def again(self, now: float) -> None:
        """Those who are lost get another grace: the gang is started again with them."""
        for node in self._lost:
            self._heard[node] = now
        self._lost.clear()

    def forget(self, node: str) -> None:
        """A node that takes no part any more may be silent."""
        self._heard.pop(node, None)
        self._flagged.discard(node)
        self._lost.discard(node)

    @property
    def watched(self) -> frozenset[str]:
        """Nodes that must report."""
        return frozenset(self._heard)

    @property
    def lost(self) -> frozenset[str]:
        """Nodes that were given up, and have not reported since."""
        return frozenset(self._lost)

    @property
    def deadline(self) -> float | None:
        """Time at which `look` has news if no node reports."""
        times = [
            heard + (self._grace if node in self._flagged else self._flag)
            for node, heard in self._heard.items()
            if node not in self._lost
        ]
        return min(times, default=None)
