"""Colours of the parts of memory."""

from __future__ import annotations

from PySide6.QtGui import QColor

from torchdeck.plan.preview.terms import TERMS
from torchdeck_app.theme.palette import Palette


def term_colour(name: str, palette: Palette) -> QColor:
    """Return the colour of a part by its name."""
    colours = {term.name: term.light if palette.scheme == "light" else term.dark for term in TERMS}
    return QColor(colours[name])
