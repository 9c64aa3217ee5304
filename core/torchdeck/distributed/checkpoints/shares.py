"""Fair shares of what has to be written. Standard library only."""

from __future__ import annotations

import heapq
from collections.abc import Mapping


def deal(sizes: Mapping[str, int], hands: int) -> dict[str, int]:
    """Distribute names so that every recipient gets about the same bytes: the largest first, to the least
    loaded.

    Args:
        sizes: bytes by name; their order does not matter.
        hands: number of recipients, at least 1.

    Returns:
        The recipient of each name, from 0 on.
    """
    loads = [(0, hand) for hand in range(hands)]
    dealt = {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        load, hand = heapq.heappop(loads)
        dealt[name] = hand
        # a name has a cost too: those without bytes are assigned round-robin
        heapq.heappush(loads, (load + max(1, sizes[name]), hand))
    return dealt
