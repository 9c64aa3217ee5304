"""Colours of the window, light and dark; only data is coloured.

Series: Okabe and Ito, "Color Universal Design", 2008; distinct with any colour vision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scheme = Literal["light", "dark"]
ColourName = Literal[
    "window", "surface", "raised", "line", "border", "text", "secondary", "accent", "on_accent", "selection",
    "good", "bad", "warn", "busy", "quiet", "disabled",
]  # fmt: skip
"""Names of single colours of a palette."""


@dataclass(frozen=True)
class Palette:
    """Set of colours, each as #rrggbb. Text has a contrast of 4.5:1 on its backgrounds, markers have 3:1."""

    scheme: Scheme
    window: str
    """Background of the window."""
    surface: str
    """Background of panels, fields, lists and plots."""
    raised: str
    """Background of hovered items and of buttons."""
    line: str
    """Separators, and borders of read-only items."""
    border: str
    """Borders of fields and buttons."""
    text: str
    secondary: str
    """Less important text: units, hints, times."""
    accent: str
    """Clickable or selected items."""
    on_accent: str
    """Text on accent."""
    selection: str
    """Background of selected items, under ordinary text."""
    good: str
    bad: str
    warn: str
    busy: str
    """Running items."""
    quiet: str
    """Waiting or cancelled items."""
    disabled: str
    """Text and markers of disabled items."""
    series: tuple[str, ...]
    """Eight colours for series, always in this order for the same rank or metric."""
    groups: tuple[str, ...]
    """Backgrounds for shard groups, in turn; ordinary text is readable on them."""

    def named(self, name: ColourName) -> str:
        """Return a colour by its name."""
        colour: str = getattr(self, name)  # checked by the type of `name`
        return colour


LIGHT = Palette(
    scheme="light",
    window="#fafafa",
    surface="#ffffff",
    raised="#f1f3f5",
    line="#e5e7eb",
    border="#cfd6dd",
    text="#1f2328",
    secondary="#57606a",
    accent="#2563eb",
    on_accent="#ffffff",
    selection="#dbe7ff",
    good="#1a7f37",
    bad="#cf222e",
    warn="#9a6700",
    busy="#2563eb",
    quiet="#656d76",
    disabled="#99a1ab",
    # yellow and light orange lack 3:1 on white: darker shades of the same hues replace them
    series=("#0072b2", "#b87f00", "#008f68", "#b5548a", "#2f8fc4", "#d55e00", "#8a7f00", "#1f2328"),
    groups=("#d6e8f5", "#fbe7c0", "#cdeee3", "#f5dfea", "#e3e8ee", "#fbdcc8"),
)
DARK = Palette(
    scheme="dark",
    window="#16181d",
    surface="#1e2127",
    raised="#282c34",
    line="#2d3139",
    border="#414852",
    text="#e6e8eb",
    secondary="#9aa4b2",
    accent="#6ea8fe",
    on_accent="#10131a",
    selection="#26395c",
    good="#4ac26b",
    bad="#ff7b72",
    warn="#d29922",
    busy="#6ea8fe",
    quiet="#8b949e",
    disabled="#5f6874",
    series=("#4aa3e0", "#e69f00", "#1fb88d", "#d48db5", "#7cc7f2", "#f08a4b", "#f0e442", "#e6e8eb"),
    groups=("#1c3a52", "#4a3a14", "#15413a", "#47293a", "#333a44", "#4c2d1b"),
)


def luminance(colour: str) -> float:
    """Return the relative luminance of `#rrggbb`, 0 to 1 (WCAG 2.2)."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, 1 to 21 (WCAG 2.2)."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
