"""Answers of the strip above the tabs: memory fit, balance and communication cost. Without Qt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torchdeck.plan.memory.fullness import fullness
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.memory_bars import VERDICT_SIGNS
from torchdeck.plan.preview.preview import percent
from torchdeck.quantities import brief, rate, size
from torchdeck.use_cases.previewer import UNTRACED
from torchdeck_app.theme.palette import ColourName

_EVEN = 1.005
_UNEVEN = 1.1
"""Ratio of fullest rank ÷ mean from which the others wait noticeably."""


class Answer(NamedTuple):
    """One of the answers."""

    question: str
    value: str
    detail: str
    colour: ColourName = "text"
    """Palette colour name of the value."""
    exact: str = ""
    """Tooltip text."""


def answers(preview: Preview) -> tuple[Answer, Answer, Answer]:
    """Return memory, balance and traffic, in this order."""
    return _fits(preview), _is_balanced(preview), _costs(preview)


def _unknown(preview: Preview, question: str, why: str) -> Answer:
    """Return `why` it is unknown, unless it will be available in a moment."""
    if UNTRACED in preview.known.remarks:
        return Answer(question, "…", "estimating memory...", "quiet")
    return Answer(question, "unknown", why, "quiet", why)


def _fits(preview: Preview) -> Answer:
    memory = preview.memory
    if memory is None:
        known = preview.known
        if known.broken:
            return Answer("Memory", "✕ fails", known.broken, "bad", known.broken)
        remark = known.remarks[0] if known.remarks else "model size unknown; add [estimate] to see memory"
        return _unknown(preview, "Memory", known.failure or remark)
    group = memory.decisive
    sign, colour = VERDICT_SIGNS[memory.verdict], VERDICT_COLOURS[memory.verdict]
    filled = fullness(group)
    detail = f"{size(group.peak_bytes)} per rank"
    if filled is not None and group.capacity_bytes is not None:
        detail = f"{size(group.peak_bytes)} of {size(group.capacity_bytes)} per rank"
    value = f"{sign} {memory.verdict}" + ("" if filled is None else f", {percent(filled)}")
    exact = (
        f"{group.peak_bytes:,} bytes, between {group.low_bytes:,} and {group.high_bytes:,}, in {group.phase}"
    )
    if memory.source == "closed form":
        exact += "; estimated, not traced"
    return Answer("Memory", value, detail, colour, exact)


def _is_balanced(preview: Preview) -> Answer:
    data = preview.data
    if data is None:
        return _unknown(preview, "Balance", "data unknown")
    most, imbalance = float(data.load.max()), data.imbalance
    exact = f"fullest rank ÷ mean = {imbalance:.6f}"
    if imbalance < _EVEN:
        return Answer("Balance", "✓ even", f"each rank reads {rate(most)} {data.unit}", "good", exact)
    more = f"the fullest rank reads {percent(imbalance - 1)} more than the mean"
    warned = imbalance >= _UNEVEN
    return Answer(
        "Balance",
        f"{'◐ ' if warned else ''}{imbalance:.2f} × mean",
        more,
        "warn" if warned else "text",
        exact,
    )


def _costs(preview: Preview) -> Answer:
    traffic = preview.traffic
    several = len(preview.board.nodes) > 1
    question = "Between nodes" if several else "Between ranks"
    if preview.plan.world_size == 1:
        return Answer(question, "nothing", "a single rank")
    if traffic is None:
        return _unknown(preview, question, "model size unknown; add [estimate] to see memory")
    exact = f"each rank sends {traffic.sent:,} bytes per step, {traffic.between:,} bytes go between nodes"
    if traffic.seconds is not None:
        exact += f"; links are busy for {brief(traffic.seconds)} per step or more"
    busy = "" if traffic.seconds is None else f"; ≥ {brief(traffic.seconds)} on links"
    if not several:
        return Answer(question, f"{size(traffic.sent)} per step", f"sent by each rank{busy}", exact=exact)
    return Answer(
        question, f"{size(traffic.between)} per step", f"{size(traffic.sent)} per rank{busy}", exact=exact
    )


# Colours of memory verdicts. Without Qt.

VERDICT_COLOURS: Mapping[str, ColourName] = {
    "fits": "good",
    "tight": "warn",
    "does not fit": "bad",
    "unknown": "quiet",
}
"""Verdict → name of a palette colour. Its symbol is in `torchdeck.plan.preview.memory_bars`."""
