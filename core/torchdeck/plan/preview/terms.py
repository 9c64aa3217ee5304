"""The six parts of memory, in the same colours on a terminal, in a picture and in the window.

Colours: Okabe and Ito, "Color Universal Design", 2008; distinct with any colour vision. On light
backgrounds some are replaced by darker shades, so that all have a contrast of 3:1 there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Term(NamedTuple):
    """One part of a stacked memory bar."""

    name: str
    light: str
    """Colour on a light background, as #rrggbb."""
    dark: str
    terminal: str
    """Colour between the two: a terminal's background is unknown."""
    glyph: str
    """Glyph that identifies it without colour."""


TERMS: tuple[Term, ...] = (
    Term("parameters", "#0072b2", "#3d9be0", "#2a8ad4", "█"),
    Term("gradients", "#b87f00", "#e69f00", "#d18f00", "▓"),
    Term("optimizer", "#008f68", "#1fb88d", "#12a67c", "▒"),
    Term("gathered", "#b5548a", "#d48db5", "#c77aa5", "▞"),
    Term("activations", "#2f8fc4", "#7cc7f2", "#4cabe0", "░"),
    Term("other", "#7d828b", "#8a8f98", "#8a8f98", "·"),
)

FAMILIES: Mapping[str, str] = {"logits": "activations"}
"""Prediction terms that count as another of `TERMS`; any unlisted term is `other`."""

VERDICT_SIGNS: Mapping[str, str] = {"fits": "✓", "tight": "◐", "does not fit": "✕", "unknown": "?"}
"""Symbol of each verdict, so that colour is never the only sign."""


def family_of(name: str) -> str:
    """Return which of `TERMS` a prediction's term counts as."""
    family = FAMILIES.get(name, name)
    return family if any(term.name == family for term in TERMS) else "other"


def by_family(terms: Mapping[str, int]) -> dict[str, int]:
    """Return the bytes of each of `TERMS`, in their order, without those of 0 bytes."""
    sums = {term.name: 0 for term in TERMS}
    for name, count in terms.items():
        sums[family_of(name)] += count
    return {name: count for name, count in sums.items() if count > 0}
