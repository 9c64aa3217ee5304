"""Evidence of one node, cut to what one message to the leader may hold. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from torchdeck.agent.doctor.evidence import (
    MOST_COLLECTIVES,
    MOST_FRAMES,
    MOST_GROUPS,
    Collective,
    RankEvidence,
    outlined,
)

LIMIT = 960 << 10
"""Bytes as JSON; a line of the channel between node and leader holds 1 MiB."""


class _Cut(NamedTuple):
    """Limits on the evidence of each rank."""

    recent: int
    """Newest collectives of each group."""
    frames: int
    groups: int
    once: bool = False
    """A group that several ranks name alike is kept with the first of them."""


_CUTS = (
    _Cut(MOST_COLLECTIVES, MOST_FRAMES, MOST_GROUPS),
    _Cut(6, 16, MOST_GROUPS),
    _Cut(2, 8, MOST_GROUPS),
    _Cut(2, 8, MOST_GROUPS, once=True),
    _Cut(1, 4, 0),
    _Cut(0, 1, 0),
)
"""All ranks are cut alike, or their collectives could not be compared."""


def fitting(ranks: tuple[RankEvidence, ...], limit: int = LIMIT) -> tuple[RankEvidence, ...]:
    """Return the evidence, with as few cuts as `limit` bytes ask for."""
    found = ranks
    for cut in _CUTS:
        found = _shortened(ranks, cut)
        if sum(len(json.dumps(plain(evidence))) for evidence in found) <= limit:
            break
    return found


def plain(evidence: RankEvidence) -> dict[str, Any]:
    """Return the evidence as JSON."""
    value = evidence._asdict()
    for name in ("frames", "groups", "collectives", "counts"):
        value[name] = [item._asdict() for item in value[name]]
    return value


def _shortened(ranks: Sequence[RankEvidence], cut: _Cut) -> tuple[RankEvidence, ...]:
    found, known = [], set[object]()
    for evidence in ranks:
        calls = _newest(evidence.collectives, cut.recent)
        groups = tuple(group for group in evidence.groups[: cut.groups] if group not in known)
        if cut.once:
            known.update(groups)
        found.append(
            evidence._replace(
                frames=outlined(evidence.frames, cut.frames),
                groups=groups,
                collectives=calls,
                counts=evidence.counts[: cut.groups],
            )
        )
    return tuple(found)


def _newest(calls: Sequence[Collective], recent: int) -> tuple[Collective, ...]:
    """Return the newest of each group, in order."""
    kept: list[Collective] = []
    counts: dict[tuple[str, bool], int] = {}
    for call in reversed(calls):
        key = (call.group, call.p2p)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= recent:
            kept.append(call)
    return tuple(reversed(kept))
