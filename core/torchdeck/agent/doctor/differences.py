"""Differences between one rank and the others. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from statistics import median
from typing import NamedTuple

from torchdeck.agent.doctor.rank_facts import PlaceShare, RankFacts

MOST = 3
"""Differences in one sentence."""


class Direction(Enum):
    """Which way a fact must differ to explain a slow rank."""

    MORE = "more"
    LESS = "less"


class Difference(NamedTuple):
    """A fact of a rank that differs from the others'."""

    name: str
    """Field of `RankFacts`."""
    own: float
    others: float
    """Median."""
    sentence: str
    """`its CPU is 40 % stolen by other processes (others: 1 %)`."""


class _Rule(NamedTuple):
    name: str
    get: Callable[[RankFacts], float | None]
    direction: Direction
    least: float
    """Difference that counts, in the fact's unit."""
    ratio: float
    """Quotient that counts, at least 1."""
    text: str
    """With `{own}` and `{others}`."""


_RULES = (
    _Rule("stolen", lambda of: of.stolen, Direction.MORE, 0.1, 1.5,
          "its CPU is {own:.0%} stolen by other processes (others: {others:.0%})"),
    _Rule("throttled", lambda of: of.throttled, Direction.MORE, 0.05, 1.5,
          "the CPU limit of its control group stops it {own:.0%} of the time (others: {others:.0%})"),
    _Rule("steal", lambda of: of.steal, Direction.MORE, 0.05, 1.5,
          "the hypervisor takes {own:.0%} of its node's CPU time (others: {others:.0%})"),
    _Rule("frequency", lambda of: of.frequency, Direction.LESS, 100.0, 1.15,
          "its CPU runs at {own:,.0f} MHz (others: {others:,.0f} MHz)"),
    _Rule("gpu_clock", lambda of: of.gpu_clock, Direction.LESS, 50.0, 1.08,
          "its GPU runs at {own:,.0f} MHz (others: {others:,.0f} MHz)"),
    _Rule("gpu_temperature", lambda of: of.gpu_temperature, Direction.MORE, 8.0, 1.1,
          "its GPU is at {own:.0f} °C (others: {others:.0f} °C)"),
    _Rule("gpu_power_limit", lambda of: of.gpu_power_limit, Direction.LESS, 10.0, 1.03,
          "its GPU's power limit is {own:.0f} W (others: {others:.0f} W)"),
    _Rule("pcie_width", lambda of: of.pcie_width, Direction.LESS, 1.0, 1.5,
          "its GPU has {own:.0f} PCIe lanes (others: {others:.0f})"),
    _Rule("loading", lambda of: of.loading, Direction.MORE, 0.15, 1.5,
          "it spends {own:.0%} of the time loading data (others: {others:.0%})"),
    _Rule("faults", lambda of: of.faults, Direction.MORE, 20.0, 2.0,
          "it waits for {own:,.0f} pages per second from disk (others: {others:,.0f})"),
)  # fmt: skip
"""Causes first, then symptoms."""
_PLACE_MORE = 0.15


def differences(ranks: Sequence[RankFacts], own: int) -> list[Difference]:
    """Return what differs on rank `own`, the likeliest cause first, at most `MOST`."""
    mine = next((facts for facts in ranks if facts.rank == own), None)
    others = [facts for facts in ranks if facts.rank != own]
    if mine is None or not others:
        return []
    found = [difference for rule in _RULES if (difference := _by(rule, mine, others)) is not None]
    place = None if any(item.name == "loading" for item in found) else _place(mine, others)
    return [*found, *([] if place is None else [place])][:MOST]


def _by(rule: _Rule, mine: RankFacts, others: Sequence[RankFacts]) -> Difference | None:
    value = rule.get(mine)
    known = [found for facts in others if (found := rule.get(facts)) is not None]
    if value is None or not known:
        return None
    typical = median(known)
    low, high = (typical, value) if rule.direction is Direction.MORE else (value, typical)
    if high - low < rule.least or high < low * rule.ratio:
        return None
    text = rule.text.format(own=value, others=typical).replace("%", " %")
    return Difference(rule.name, value, typical, text)


def _place(mine: RankFacts, others: Sequence[RankFacts]) -> Difference | None:
    """Return the line where the rank is more often than the others are, if there is one."""
    excess = [(found.share - _typical(found.place, others), found) for found in mine.places]
    more, found = max(excess, default=(0.0, PlaceShare("", 0.0)))
    if more < _PLACE_MORE:
        return None
    text = f"it is {found.share:.0%} of the time in {found.place} (others: {found.share - more:.0%})"
    return Difference("place", found.share, found.share - more, text.replace("%", " %"))


def _typical(place: str, ranks: Sequence[RankFacts]) -> float:
    return median(sum(found.share for found in facts.places if found.place == place) for facts in ranks)
