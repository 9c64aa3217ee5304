"""Fonts of the window: one family in three sizes, and a fixed-width font."""

from __future__ import annotations

from enum import Enum
from functools import cache

from PySide6.QtGui import QFont, QFontDatabase

_SANS = ("Inter", "Segoe UI", "SF Pro Text", "Noto Sans", "Cantarell", "Ubuntu", "DejaVu Sans")
_MONO = ("JetBrains Mono", "Cascadia Mono", "SF Mono", "Menlo", "Noto Sans Mono", "DejaVu Sans Mono")


class Type(Enum):
    """Kind of text, with its size in points and weight as in LOOK."""

    BODY = (11, QFont.Weight.Normal, "sans")
    SMALL = (10, QFont.Weight.Normal, "sans")
    """Axes of plots and captions of pictures."""
    HEADING = (13, QFont.Weight.DemiBold, "sans")
    NUMBER = (20, QFont.Weight.DemiBold, "sans")
    """The most important number on a card."""
    MONO = (10, QFont.Weight.Normal, "mono")
    """Commands, paths, logs, TOML."""


def font(kind: Type) -> QFont:
    """Return the font for a text of `kind`, with digits of equal width if the family supports it."""
    points, weight, face = kind.value
    made = QFont()
    made.setFamilies(list(_families(_MONO if face == "mono" else _SANS, fixed=face == "mono")))
    made.setPointSize(points)
    made.setWeight(weight)
    # else Inter draws `2x3` as 2×3, and a fixed-width font `!=` as ≠: names, keys and commands are shown as
    # written
    made.setFeature(QFont.Tag("calt"), 0)
    if face == "mono":
        made.setStyleHint(QFont.StyleHint.Monospace)
    else:
        made.setFeature(QFont.Tag("tnum"), 1)
    return made


@cache  # used by all painting; the installed list is long
def _families(wanted: tuple[str, ...], *, fixed: bool) -> tuple[str, ...]:
    """Return the families of `wanted` that are installed, then the system's own."""
    installed = set(QFontDatabase.families())
    kind = QFontDatabase.SystemFont.FixedFont if fixed else QFontDatabase.SystemFont.GeneralFont
    system = QFontDatabase.systemFont(kind).family()
    return (*(name for name in wanted if name in installed), system)
