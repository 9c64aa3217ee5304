"""links.json, which the controller updates once a second."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

from torchdeck.contract.layout import RunLayout
from torchdeck.launching.remote.link import NodeLink
from torchdeck.runs.links import LinkState, write_links

INTERVAL = 1.0


class LinkFile:
    """Writes the state of one run's links.

    Args:
        layout: layout of the run.
        links: links to its nodes.
        with_code: adds to a link's state the progress of code sent over it.
    """

    def __init__(
        self,
        layout: RunLayout,
        links: Sequence[NodeLink],
        with_code: Callable[[LinkState], LinkState] = lambda state: state,
    ) -> None:
        self._layout = layout
        self._links = tuple(links)
        self._with_code = with_code
        self._due = 0.0

    def look(self, *, at_once: bool = False) -> None:
        """Write it if it is due, or `at_once`. A full disk skips one write."""
        now = time.monotonic()
        if at_once or now >= self._due:
            self._due = now + INTERVAL
            with contextlib.suppress(OSError):
                states = {link.node: self._with_code(link.state) for link in self._links}
                write_links(self._layout, states, time.time())
