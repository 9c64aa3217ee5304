"""A link to a node that was begun before it was known what run it is for."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from torchdeck.launching.remote.bootstrap import Bootstrap
from torchdeck.nodes.inventory.schema import NodeEntry


class EarlyLink(NamedTuple):
    """On its way, there, or gone wrong: then whoever wanted it begins anew, and is told what is wrong."""

    entry: NodeEntry
    """The node's, in the book that it was begun with."""
    coming: Future[Bootstrap]

    def take(self, shipped: Path, limit: float) -> Bootstrap | None:
        """It, once it is ready; None where it is not within `limit` s, or has another part of ours.

        Args:
            shipped: the folder that the run was started with.
            limit: seconds.
        """
        try:
            found = self.coming.result(limit)
        except Exception:  # noqa: BLE001 - whatever it is: see above
            self.give_up()
            return None
        if found.shipped == shipped:
            return found
        found.stream.close()
        return None

    def give_up(self) -> None:
        """Nobody wants it: its connection is closed, with which the node's Python ends."""
        if not self.coming.cancel():
            self.coming.add_done_callback(_close)


def _close(coming: Future[Bootstrap]) -> None:
    if not coming.cancelled() and coming.exception() is None:
        coming.result().stream.close()
