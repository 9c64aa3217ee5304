"""Settings with which a run was started, from its directory: its run file, including overrides."""

from __future__ import annotations

from dataclasses import dataclass

from torchdeck.config.overridden_text import with_overrides
from torchdeck.contract.journal import JournalReader
from torchdeck.contract.layout import RunLayout


@dataclass(frozen=True)
class FrozenRunFile:
    """Frozen run file of a run."""

    text: str
    """Original text, with every `--set` of the start applied."""
    source: str
    """Original file; empty for a command line."""


def frozen_run_file(layout: RunLayout) -> FrozenRunFile:
    """Read the frozen run file.

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
