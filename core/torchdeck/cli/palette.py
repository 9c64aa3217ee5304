"""Colours of the preview, the same on a terminal and in a picture.

Series and terms: Okabe and Ito, "Color Universal Design", 2008; distinct with any colour vision.
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
    Term("gradients", "#e69f00", "#e69f00", "#d18f00", "▓"),
    Term("optimizer", "#009e73", "#1fb88d", "#12a67c", "▒"),
    Term("gathered", "#cc79a7", "#d48db5", "#c77aa5", "▞"),
    Term("activations", "#56b4e9", "#7cc7f2", "#4cabe0", "░"),
    Term("other", "#8a8f98", "#8a8f98", "#8a8f98", "·"),
)

FAMILIES: Mapping[str, str] = {"logits": "activations"}
"""Terms of a prediction that count as another of `TERMS`; what is not named at all is `other`."""

SERIES = "#2a8ad4"
"""Bars on a terminal."""
GROUPS = ("#2a8ad4", "#12a67c")
"""Shard groups on a terminal, in turn."""
VERDICTS: Mapping[str, str] = {"fits": "green", "tight": "yellow", "does not fit": "red", "unknown": "dim"}
"""On a terminal, whose own theme knows its ground."""
VERDICT_SIGNS: Mapping[str, str] = {"fits": "✓", "tight": "◐", "does not fit": "✕", "unknown": "?"}


def by_family(terms: Mapping[str, int]) -> dict[str, int]:
    """Bytes of each of `TERMS`, in their order, without those of 0 bytes."""
    sums = {term.name: 0 for term in TERMS}
    for name, count in terms.items():
        family = FAMILIES.get(name, name)
        sums[family if family in sums else "other"] += count
    return {name: count for name, count in sums.items() if count > 0}
