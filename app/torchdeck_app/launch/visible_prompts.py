"""Prompts of background work: the user is prompted only while the related page is visible."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from torchdeck.nodes.connector import Connector
from torchdeck.nodes.ssh.credentials import Asker
from torchdeck.nodes.ssh.target import SshTarget
from torchdeck_app.bridge.logins import Logins

T = TypeVar("T")


class AskedInSight:
    """Asker that prompts only while visible. Thread-safe."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins
        self._lock = threading.Lock()
        self._in_sight = False
        self._has_declined = False

    @property
    def connector(self) -> Connector:
        """Return a connector with these prompts."""
        return replace(self._logins.asking, asker=self)

    def come_into_sight(self) -> bool:
        """Enable prompts; return whether one was suppressed before and the connection should be retried."""
        with self._lock:
            self._in_sight = True
            wanted, self._has_declined = self._has_declined, False
            return wanted

    def go_out_of_sight(self) -> None:
        """Disable prompts."""
        self._in_sight = False

    def password(self, target: SshTarget, *, again: bool) -> str | None:
        """See `Asker`."""
        return self._ask(lambda asker: asker.password(target, again=again))

    def passphrase(self, path: Path, *, again: bool) -> str | None:
        """See `Asker`."""
        return self._ask(lambda asker: asker.passphrase(path, again=again))

    def trust(self, target: SshTarget, key_type: str, fingerprint: str) -> bool:
        """See `Asker`."""
        return self._ask(lambda asker: asker.trust(target, key_type, fingerprint) or None) is not None

    def _ask(self, question: Callable[[Asker], T | None]) -> T | None:
        """Prompt; a pending prompt stays valid if the page is hidden, and a suppressed one is postponed."""
        if not self._in_sight:
            answer = question(self._logins.quiet.asker)
            if answer is not None:
                return answer
            with self._lock:
                if not self._in_sight:
                    self._has_declined = True
                    return None
        return question(self._logins.asking.asker)
