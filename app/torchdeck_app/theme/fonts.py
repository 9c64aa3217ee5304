"""The type of the window: one family in three sizes, and a fixed-width face."""

from __future__ import annotations

from enum import Enum
from functools import cache

from PySide6.QtGui import QFont, QFontDatabase

_SANS = ("Inter", "Segoe UI", "SF Pro Text", "Noto Sans", "Cantarell", "Ubuntu", "DejaVu Sans")
_MONO = ("JetBrains Mono", "Cascadia Mono", "SF Mono", "Menlo", "Noto Sans Mono", "DejaVu Sans Mono")


class Type(Enum):
    """What a text is; LOOK of the window in points and weight."""

    BODY = (11, QFont.Weight.Normal, "sans")
    SMALL = (10, QFont.Weight.Normal, "sans")
    """Axes of plots and captions of pictures."""
    HEADING = (13, QFont.Weight.DemiBold, "sans")
    NUMBER = (20, QFont.Weight.DemiBold, "sans")
    """The one number that matters on a card."""
    MONO = (10, QFont.Weight.Normal, "mono")
    """Commands, paths, logs, TOML."""


def font(kind: Type) -> QFont:
    """The font for a text of `kind`; its figures are all equally wide where the family can."""
    points, weight, face = kind.value
    made = QFont()
    made.setFamilies(list(_families(_MONO if face == "mono" else _SANS, fixed=face == "mono")))
    made.setPointSize(points)
    made.setWeight(weight)
    # else Inter draws `2x3` as 2×3, and a fixed-width face `!=` as ≠: names, keys and commands are as written
    made.setFeature(QFont.Tag("calt"), 0)
    if face == "mono":
        made.setStyleHint(QFont.StyleHint.Monospace)
    else:
        made.setFeature(QFont.Tag("tnum"), 1)
    return made


@cache  # asked for by whoever paints text, and the list of all that is installed is long
def _families(wanted: tuple[str, ...], *, fixed: bool) -> tuple[str, ...]:
    """Those of `wanted` that are installed, then the system's own."""
    installed = set(QFontDatabase.families())
    kind = QFontDatabase.SystemFont.FixedFont if fixed else QFontDatabase.SystemFont.GeneralFont
    system = QFontDatabase.systemFont(kind).family()
    return (*(name for name in wanted if name in installed), system)
