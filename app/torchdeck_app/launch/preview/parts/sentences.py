"""Clauses of the engine as sentences of the window."""

from __future__ import annotations

from torchdeck.plan.preview import Preview
from torchdeck.use_cases.previewer import UNTRACED


def sentence(text: str) -> str:
    """`text` with a capital and a full stop; empty stays empty."""
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def once_traced(preview: Preview, what: str) -> str:
    """Why a recipe's preview lacks `what`: its model is being traced, or something kept it from that."""
    if UNTRACED in preview.known.remarks:
        return "Available when the memory estimate is done (running)."
    said = " ".join(sentence(note) for note in preview.notes)
    return f"{what} is available once memory has been estimated. {said}".strip()
