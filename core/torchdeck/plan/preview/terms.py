"""The six parts of memory, in the same colours on a terminal, in a picture and in the window.

Colours: Okabe and Ito, "Color Universal Design", 2008; distinct with any colour vision. On light
grounds darker shades of some stand in, as all have 3:1 there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Term(NamedTuple):
    """One part of a stacked memory bar."""

    name: str
    light: str
    """Its colour on a light ground, as #rrggbb."""
    dark: str
    terminal: str
    """Between the two: nobody knows a terminal's ground."""
    glyph: str
    """Tells it apart where there is no colour."""


TERMS: tuple[Term, ...] = (
    Term("parameters", "#0072b2", "#3d9be0", "#2a8ad4", "█"),
    Term("gradients", "#b87f00", "#e69f00", "#d18f00", "▓"),
    Term("optimizer", "#008f68", "#1fb88d", "#12a67c", "▒"),
    Term("gathered", "#b5548a", "#d48db5", "#c77aa5", "▞"),
    Term("activations", "#2f8fc4", "#7cc7f2", "#4cabe0", "░"),
    Term("other", "#7d828b", "#8a8f98", "#8a8f98", "·"),
)

FAMILIES: Mapping[str, str] = {"logits": "activations"}
"""Terms of a prediction that count as another of `TERMS`; what is not named at all is `other`."""

VERDICT_SIGNS: Mapping[str, str] = {"fits": "✓", "tight": "◐", "does not fit": "✕", "unknown": "?"}
"""A verdict's shape: its colour is never alone."""


def family_of(name: str) -> str:
    """Which of `TERMS` a term of a prediction counts as."""
    family = FAMILIES.get(name, name)
    return family if any(term.name == family for term in TERMS) else "other"


def by_family(terms: Mapping[str, int]) -> dict[str, int]:
    """Bytes of each of `TERMS`, in their order, without those of 0 bytes."""
    sums = {term.name: 0 for term in TERMS}
    for name, count in terms.items():
        sums[family_of(name)] += count
    return {name: count for name, count in sums.items() if count > 0}
