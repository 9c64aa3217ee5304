"""What waits to be sent, the important first: events, state, metrics, and logs after all of them."""

from __future__ import annotations

from collections import deque
from typing import Generic, Protocol, TypeVar

from torchdeck.agent.link.names import NOTHING, Level, Mirrored


class Ranked(Protocol):
    """Something that belongs to a level."""

    kind: Mirrored


Item = TypeVar("Item", bound=Ranked)


class Backlog(Generic[Item]):
    """Items in order of their level; within one, each in its turn."""

    def __init__(self) -> None:
        self._levels: dict[Level, deque[Item]] = {level: deque() for level in Level}
        self._waiting: set[int] = set()
        self.held = NOTHING
        """Items of this level and above wait until there is another."""

    def __len__(self) -> int:
        """Items that may go now."""
        return sum(len(waiting) for level, waiting in self._levels.items() if level < self.held)

    def push(self, item: Item) -> None:
        """Let `item` wait; one that does already stays where it is."""
        if id(item) not in self._waiting:
            self._waiting.add(id(item))
            self._levels[item.kind.level].append(item)

    def pop(self) -> Item | None:
        """The next one; None when nothing waits."""
        for level, waiting in self._levels.items():
            if waiting and level < self.held:
                item = waiting.popleft()
                self._waiting.discard(id(item))
                return item
        return None
