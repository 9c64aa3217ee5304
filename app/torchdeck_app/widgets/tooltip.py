"""Tooltips of texts that others wrote."""

from __future__ import annotations

from torchdeck.shown_text import shown


def plain_tip(text: str) -> str:
    """A tooltip that shows `text` as it is, whatever stands in it; none for an empty text."""
    from html import escape  # the first paint need not wait for its table of names

    return f"<qt>{escape(shown(text))}</qt>".replace("\n", "<br>") if text else ""
