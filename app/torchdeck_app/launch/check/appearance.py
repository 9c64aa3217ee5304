"""How the outcome of a check looks: a sign, a colour and a word, never colour alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torchdeck.plan.check import Status
from torchdeck_app.launch.check.rows import Remedy


class Look(NamedTuple):
    """Of one outcome."""

    sign: str
    colour: str
    """A name of the palette."""
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
"""What the button says that does it."""
