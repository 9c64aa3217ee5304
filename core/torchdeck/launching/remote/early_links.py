"""The links that an early controller begins: logins and imports are most of a start across nodes."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from pathlib import Path

from torchdeck.config.problems import ConfigError
from torchdeck.launching.remote.bootstrap import Bootstrap
from torchdeck.launching.remote.early_link import EarlyLink
from torchdeck.launching.remote.node_dial import dial_of
from torchdeck.launching.runtime_bundle import ship
from torchdeck.nodes.background import in_background
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.schema import NodeEntry

LIMIT = 30.0
"""Seconds for connecting, and again for what the node's Python loads."""


class EarlyLinks:
    """Connections to nodes, each with a Python that waits for the order of a link. Belongs to one thread."""

    def __init__(self, home: Path) -> None:
        """None yet.

        Args:
            home: TORCHDECK_HOME. Nobody is asked for a login, and none is known that was asked for.
        """
        self._reach = Connector(home)
        self._links: dict[str, EarlyLink] = {}
        self._shipped: Future[Path] | None = None

    def begin(self, node: str) -> None:
        """Connect to a node of the book, and have it load what an agent needs; waits for nothing."""
        try:
            entry = self._reach.node_inventory().nodes.get(node)
        except ConfigError:
            return
        if entry is None or node in self._links:
            return
        if self._shipped is None:
            (self._shipped,) = in_background([partial(ship, self._reach.home)], 1, "shipping")
        prepared = partial(self._prepared, node, entry, self._shipped)
        (coming,) = in_background([prepared], 1, f"early link {node}")
        self._links[node] = EarlyLink(entry, coming)

    def take(self, node: str, entry: NodeEntry) -> EarlyLink | None:
        """The link to `node`, which is the taker's from now on; None where it is not what `entry` says."""
        link = self._links.pop(node, None)
        if link is None or link.entry == entry:
            return link
        link.give_up()
        return None

    def close(self) -> None:
        """Give up those that nobody took."""
        for link in self._links.values():
            link.give_up()
        self._links.clear()

    def _prepared(self, node: str, entry: NodeEntry, shipped: Future[Path]) -> Bootstrap:
        stream = dial_of(self._reach, node, entry)(LIMIT)
        try:
            bootstrap = Bootstrap(stream, shipped.result(LIMIT), entry.home or "", begins=True)
            bootstrap.prepare(LIMIT)
        except BaseException:
            stream.close()
            raise
        return bootstrap
