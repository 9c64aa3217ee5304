"""What a run was started with, out of its directory: its run file, and what was said on top of it."""

from __future__ import annotations

from dataclasses import dataclass

from torchdeck.config.overridden_text import with_overrides
from torchdeck.contract.journal import JournalReader
from torchdeck.contract.layout import RunLayout


@dataclass(frozen=True)
class FrozenRunFile:
    """The run file of a run."""

    text: str
    """As it was, with every `--set` of the start put in."""
    source: str
    """The file it came from; empty for a command line."""


def frozen_run_file(layout: RunLayout) -> FrozenRunFile:
    """Read it.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not TOML in UTF-8 (one that was frozen always is).
    """
    text = layout.config.read_text(encoding="utf-8")
    created = next(
        (event for event in JournalReader(layout.journal).read_new() if event.name == "created"), None
    )
    if created is None:
        return FrozenRunFile(text, "")
    overrides, source = created.fields.get("overrides"), created.fields.get("source")
    text = with_overrides(text, [str(item) for item in overrides] if isinstance(overrides, list) else [])
    return FrozenRunFile(text, source if isinstance(source, str) else "")
