"""State of the ranks of a run's current attempt, from their nodes' heartbeats. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torchdeck.runs.links import LinkState
from torchdeck.runs.replay import typed
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.run_state import Liveness, NodeLiveness, RankExit, RankView

_RANK = re.compile(r"[0-9]{1,7}", re.ASCII)
_FRESH = 5.0
"""Seconds between two heartbeats, plus the delay on a busy machine: younger ones say nothing about a rank
yet.
"""


def rank_views(
    history: RunHistory, heartbeats: Mapping[str, Mapping[str, Any]], liveness: Liveness, now: float
) -> tuple[RankView, ...]:
    """Return the ranks in order; arguments as for `view.view`."""
    exits = {exit_.rank: exit_ for exit_ in history.exits(history.attempt or 0)}
    found = {}
    for node, beat in heartbeats.items():
        if typed.whole(beat, "attempt") != history.attempt:
            continue
        told = beat_time(beat, liveness.nodes.get(node, NodeLiveness()).link)
        age = 0.0 if told is None or now - told < _FRESH else now - told
        rss = typed.mapping(beat, "rss_bytes")
        for name, value in typed.mapping(beat, "ranks").items():
            if _RANK.fullmatch(name) and isinstance(value, Mapping):
                rank = int(name)
                found[rank] = _rank_view(rank, value, typed.whole(rss, name), age, exits.get(rank))
    return tuple(found[rank] for rank in sorted(found))


def _rank_view(
    rank: int, value: Mapping[str, Any], rss: int | None, age: float, exit_: RankExit | None
) -> RankView:
    still = typed.number(value, "still")
    return RankView(
        rank,
        typed.text(value, "phase"),
        typed.whole(value, "step"),
        typed.whole(value, "total"),
        None if still is None or exit_ is not None else max(0.0, still) + age,
        typed.whole(value, "pid"),
        rss,
        exit_,
    )


def beat_time(heartbeat: Mapping[str, Any], link: LinkState | None) -> float | None:
    """Return when a node's heartbeat was written, unix seconds on our clock; None if unknown."""
    beat = typed.moment(heartbeat, "t")
    return beat if beat is None or link is None or link.clock_offset is None else beat - link.clock_offset
