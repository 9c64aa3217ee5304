"""Look of a check's outcome: a symbol, a colour and a word, never colour alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torchdeck.plan.check import Status
from torchdeck_app.launch.check.rows import Remedy


class Look(NamedTuple):
    """Look of one outcome."""

    sign: str
    colour: str
    """Name of a palette colour."""
    word: str


LOOKS: Mapping[Status, Look] = {
    "failed": Look("✕", "bad", "stops the start"),
    "warning": Look("⚠", "warn", "warning"),
    "ok": Look("✓", "good", "fine"),
}
REMEDIES: Mapping[Remedy, str] = {
    "trust": "&Trust the folder …",
    "queue": "&Wait in the queue",
    "problem": "&Go to the key",
}
"""Button text of each remedy."""
