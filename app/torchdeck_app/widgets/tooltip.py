"""Tooltips of untrusted texts."""

from __future__ import annotations

from torchdeck.shown_text import shown


def plain_tip(text: str) -> str:
    """Return a tooltip that shows `text` literally; none for an empty text."""
    from html import escape  # not needed for the first paint

    return f"<qt>{escape(shown(text))}</qt>".replace("\n", "<br>") if text else ""
