"""Look of a node's connection state, and the available help: a shape, a word, a colour, and the card's
button.
"""

from __future__ import annotations

from typing import NamedTuple

from torchdeck_app.nodes.live.sight import Standing
from torchdeck_app.widgets.state_badge import Look


class Help(NamedTuple):
    """User action for a node that is not connected."""

    text: str
    tip: str
    asks: bool
    """Whether it may prompt the user."""
    edits: bool = False
    """Whether it edits the node inventory."""


LOOKS = {
    Standing.REACHING: Look("◷", "connecting", "quiet"),
    Standing.REACHED: Look("●", "connected", "good"),
    Standing.UNREACHABLE: Look("✕", "unreachable", "bad"),
    Standing.NEEDS_LOGIN: Look("◐", "needs login", "warn"),
    Standing.NEEDS_KEY: Look("✕", "no key it takes", "bad"),
    Standing.KEY_UNKNOWN: Look("?", "host key unknown", "warn"),
    Standing.KEY_CHANGED: Look("✕", "host key changed", "bad"),
    Standing.NO_PYTHON: Look("✕", "no Python", "bad"),
}
HELPS = {
    Standing.UNREACHABLE: Help("Try again", "Connect to it once more", asks=False),
    Standing.NEEDS_LOGIN: Help("Log in …", "Ask for the password or passphrase, and connect", asks=True),
    Standing.NEEDS_KEY: Help(
        "Edit …", "Name a key that it takes; it asks for no password", asks=False, edits=True
    ),
    Standing.KEY_UNKNOWN: Help(
        "Look at the key …", "Show the host's fingerprint, to trust it or not", asks=True
    ),
    Standing.KEY_CHANGED: Help(
        "Try again", "Connect to it once more; a changed key stays refused", asks=False
    ),
    Standing.NO_PYTHON: Help(
        "Edit …", "Change what the node inventory says of its Python", asks=False, edits=True
    ),
}
"""None if no action is possible."""


def summary(standings: list[Standing]) -> str:
    """Return the number of nodes and their connection states, in a few words."""
    if not standings:
        return ""
    total = f"{len(standings)} node{'s' * (len(standings) != 1)}"
    counts = {standing: standings.count(standing) for standing in LOOKS}
    told = [f"{count} {LOOKS[standing].word}" for standing, count in counts.items() if count]
    told.sort(key=lambda text: not text.endswith(LOOKS[Standing.REACHED].word))
    return f"{total}: {', '.join(told)}"
