"""Settings and session of the last window, read in a thread while Qt is loaded."""

from __future__ import annotations

import threading
from pathlib import Path

from torchdeck_app.settings.saved_files import Kept, read_kept

PATIENCE = 0.3
"""Seconds that the first paint waits for a slow disk; LateState restores what comes later."""


class SavedState:
    """Saved state that starts to be read on construction."""

    def __init__(self, settings: Path, session: Path, *, settings_version: int, session_version: int) -> None:
        self.settings = Kept()
        self.session = Kept()
        self._is_read = threading.Event()

        def read() -> None:
            try:
                self.settings = read_kept(settings, settings_version)
                self.session = read_kept(session, session_version)
            finally:
                self._is_read.set()

        threading.Thread(target=read, name="kept state", daemon=True).start()

    def wait(self, seconds: float = PATIENCE) -> bool:
        """Wait for the state; return whether it has been read. Until then, both are as at a first start."""
        return self._is_read.wait(seconds)

    @property
    def said(self) -> tuple[str, ...]:
        """Return messages about files that could not be used."""
        return tuple(kept.said for kept in (self.settings, self.session) if kept.said)
