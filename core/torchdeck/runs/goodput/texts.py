"""Goodput in words."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.quantities import duration
from torchdeck.runs.goodput.uses import Goodput, Use

_SHOWN = 0.005
"""Smallest share that is named."""
_WORDS = {
    Use.QUEUE: "waiting for devices",
    Use.START: "start",
    Use.SAVE: "saves",
    Use.STALL: "stalled",
    Use.STRAGGLER: "stragglers",
    Use.RESTART: "restarts",
    Use.RECOMPUTE: "steps done again",
    Use.OTHER: "other",
}
_KWH = 3.6e6


def goodput_sentence(found: Goodput) -> str:
    """Return `goodput 87 % of 1 h 20 min (restarts 5 %, saves 2 %), 3.2 kWh`."""
    lost = sorted((use for use in _WORDS if found.share(use) >= _SHOWN), key=found.share, reverse=True)
    rest = ", ".join(f"{_WORDS[use]} {_percent(found.share(use))}" for use in lost)
    text = f"goodput {_percent(found.share(Use.PRODUCTIVE))} of {duration(found.wall)}"
    return f"{text}{f' ({rest})' if rest else ''}{energy(found)}"


def energy(found: Goodput) -> str:
    """Return `, 3.2 kWh`; empty if no GPU tells its power."""
    if found.joules is None:
        return ""
    hours = found.joules / _KWH
    return f", {hours:.1f} kWh" if hours >= 1 else f", {hours * 1000.0:.1f} Wh"


def goodput_lines(found: Goodput) -> Iterator[str]:
    """Yield the sentence of the run, and of each node if there are several."""
    yield goodput_sentence(found)
    for name, node in found.nodes.items():
        yield f"  node {name}: {goodput_sentence(node)}"


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"
