"""Progress of an environment that is being made."""

from __future__ import annotations

import threading

LIMIT = 3600.0
"""Seconds until an environment that is not complete is given up: torch alone is gigabytes to download."""


class Making:
    """Progress of an environment that is being made, and its end; from any thread.

    Attributes:
        text: what is being done; empty before and after.
        limit: seconds it may take.
    """

    def __init__(self, limit: float = LIMIT) -> None:
        self.text = ""
        self.limit = limit
        self._cancelled = threading.Event()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """End it soon; uv's processes are ended, too."""
        self._cancelled.set()
