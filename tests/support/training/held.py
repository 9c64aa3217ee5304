"""Something that may not run yet."""

from __future__ import annotations

from pathlib import Path

from torchdeck.trust.trusted_entry import Held


def held_in(folder: Path) -> Held:
    """Code in `folder` that was not trusted yet."""
    return Held(folder, f"model.py is code, and its folder {folder} is not trusted yet", "read it")
