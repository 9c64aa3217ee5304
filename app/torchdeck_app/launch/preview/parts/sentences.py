"""Clauses of the engine as sentences of the window."""

from __future__ import annotations

from torchdeck.plan.preview import Preview
from torchdeck.use_cases.previewer import UNTRACED


def sentence(text: str) -> str:
    """Return `text` with a capital letter and a period; empty stays empty."""
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def once_traced(preview: Preview, what: str) -> str:
    """Return why a recipe's preview lacks `what`: its model is being traced, or something prevented that."""
    if UNTRACED in preview.known.remarks:
        return "Available when the memory estimate is done (running)."
    said = " ".join(sentence(note) for note in preview.notes)
    return f"{what} is available once memory has been estimated. {said}".strip()
