"""A profile of ranks as it is ordered: by the person's request, and by the agent of a rank."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

KIND = "profile"
"""Kind of the request."""
LEAST_SECONDS, MOST_SECONDS = 0.1, 60.0
MOST_RANKS = 64
_NAME = re.compile(r"[0-9]{1,30}-profile-[0-9a-f]{1,32}")


class Wanted(NamedTuple):
    """Ranks to profile, and for how long."""

    ranks: tuple[int, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {"ranks": list(self.ranks), "seconds": self.seconds}


class ProfileOrder(NamedTuple):
    """Order of an agent to one of its ranks."""

    folder: Path
    seconds: float


def wanted_from(value: object) -> Wanted | None:
    """Return what a request asks for; None if it is not valid."""
    if not isinstance(value, Mapping):
        return None
    ranks, seconds = value.get("ranks"), value.get("seconds")
    if not isinstance(ranks, list) or not 0 < len(ranks) <= MOST_RANKS:
        return None
    if any(type(rank) is not int or not 0 <= rank < 1 << 24 for rank in ranks):
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        return None
    in_range = LEAST_SECONDS <= seconds <= MOST_SECONDS
    return Wanted(tuple(ranks), float(seconds)) if in_range else None


def is_profile_name(name: str) -> bool:
    """Return whether `name`, the id of a request, can be the folder of a profile."""
    return _NAME.fullmatch(name) is not None


def order_text(order: ProfileOrder) -> str:
    """Return what the agent writes for a rank."""
    return f"{order.folder}\n{order.seconds}"


def parse_order(text: str) -> ProfileOrder | None:
    """Return the order in a text of `order_text`; None if it is not valid."""
    folder, _, seconds = text.rpartition("\n")
    try:
        found = ProfileOrder(Path(folder), float(seconds))
    except ValueError:
        return None
    fits = LEAST_SECONDS <= found.seconds <= MOST_SECONDS and is_profile_name(found.folder.name)
    return found if fits else None
