"""All entries of the queue with its limits, and the changes that users make: pure values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from torchdeck.contract.refusal import Refusal
from torchdeck.queue.entry import SUCCEEDED, Condition, Entry, Stage
from torchdeck.queue.scheduling.scheduler import Limits

KEPT_ENDED = 200
"""Newest ended entries that stay in the file, besides those that others name."""


class QueueError(Refusal):
    """The queue cannot be used, or not changed this way."""

    page = "queue"


class NewerQueueError(QueueError):
    """A newer Torchdeck wrote the queue."""


class NoSuchEntryError(QueueError):
    """No entry has this id."""

    is_usage = True


@dataclass(frozen=True)
class QueueLimits:
    """Limits of the queue."""

    slots: Mapping[str, int] = field(default_factory=dict)
    """CPU runs at once by node; others have `default_slots`."""
    default_slots: int = 1
    per_user: int | None = None
    per_tag: Mapping[str, int] = field(default_factory=dict)

    def slots_of(self, node: str) -> int:
        return self.slots.get(node, self.default_slots)

    @property
    def runs(self) -> Limits:
        """Return the limits of runs at once."""
        return Limits(self.per_user, self.per_tag)


@dataclass(frozen=True)
class Queue:
    """Content of the queue."""

    entries: tuple[Entry, ...] = ()
    limits: QueueLimits = field(default_factory=QueueLimits)
    next_number: int = 1
    """Number of the next new entry."""
    damage: tuple[str, ...] = ()
    """Parts of the file that could not be read, as sentences."""

    def find(self, entry_id: str) -> Entry:
        """Return the entry with this id, which may be its number alone. Raises NoSuchEntryError."""
        asked = f"q{entry_id}" if entry_id.isdecimal() else entry_id
        found = next((entry for entry in self.entries if entry.id == asked), None)
        if found is None:
            raise NoSuchEntryError(f"there is no entry {entry_id} in the queue", fix="`torchdeck queue list`")
        return found

    def waiting(self) -> list[Entry]:
        """Return the entries that wait, in the order in which they are considered."""
        return [entry for entry in self._ordered() if entry.stage is Stage.WAITING]

    def _ordered(self) -> list[Entry]:
        """Return the entries that wait, and those that have devices and may wait again, in this order."""
        active = [entry for entry in self.entries if not entry.is_over]
        return sorted(active, key=lambda entry: (-entry.priority, entry.position, entry.number))

    def with_new(self, make: Callable[[str, int], Entry]) -> Queue:
        """Return the queue with a new entry at its end; `make` gets its id and its position."""
        position = 1 + max((entry.position for entry in self.entries), default=0)
        entry = make(f"q{self.next_number}", position)
        return replace(self, entries=(*self.entries, entry), next_number=self.next_number + 1)

    def with_entry(self, changed: Entry) -> Queue:
        """Return the queue with `changed` in place of the entry with its id."""
        return replace(
            self, entries=tuple(changed if each.id == changed.id else each for each in self.entries)
        )

    def must_not_circle(self, entry: Entry) -> None:
        """Raise QueueError if an entry would wait for itself, directly or through others."""
        entries = {each.id: each for each in self.entries}
        ahead, seen = [after.run for after in entry.after], set[str]()
        while ahead:
            first = ahead.pop()
            if first == entry.id:
                raise QueueError(f"{entry.id} would wait for itself", fix="another --after", key="--after")
            if first in entries and first not in seen:
                ahead += (after.run for after in entries[first].after)
            seen.add(first)

    def without(self, ids: Collection[str]) -> Queue:
        """Return the queue without these entries.

        Others may wait for an ended one: a condition that it has met is dropped, else they wait for its run.

        Raises:
            QueueError: another entry waits for one that has not ended.
        """
        removed = {entry.id: entry for entry in self.entries if entry.id in ids}
        stay = [entry for entry in self.entries if entry.id not in removed]
        kept = (entry if entry.is_over else _without_named(entry, removed) for entry in stay)
        return replace(self, entries=tuple(kept))

    def moved(self, entry_id: str, before: str | None) -> Queue:
        """Return the queue with an entry moved before another one, with the priority of that one.

        Args:
            entry_id: an entry that waits.
            before: another one; None: to the end of those with its priority.

        Raises:
            QueueError: there is no such entry, or one of the two does not wait.
        """
        moved = must_wait(self.find(entry_id))
        others = [entry for entry in self._ordered() if entry.id != moved.id]
        if before is None:
            at = len(others)
        else:
            target = must_wait(self.find(before))
            if target.id == moved.id:
                return self
            moved = replace(moved, priority=target.priority)
            at = next(place for place, entry in enumerate(others) if entry.id == target.id)
        order = {each.id: place for place, each in enumerate([*others[:at], moved, *others[at:]], start=1)}
        placed = (moved if entry.id == moved.id else entry for entry in self.entries)
        return replace(
            self,
            entries=tuple(replace(each, position=order.get(each.id, each.position)) for each in placed),
        )

    def pruned(self) -> Queue:
        """Return the queue without old ended entries."""
        named = {after.run for entry in self.entries if not entry.is_over for after in entry.after}
        ended = sorted((each for each in self.entries if each.is_over), key=lambda each: each.ended or 0.0)
        old = {entry.id for entry in ended[:-KEPT_ENDED] if entry.id not in named}
        if not old:
            return self
        return replace(self, entries=tuple(entry for entry in self.entries if entry.id not in old))


def _without_named(entry: Entry, removed: Mapping[str, Entry]) -> Entry:
    """Return an entry that names none of the removed ones. Raises QueueError."""
    after = []
    for each in entry.after:
        first = removed.get(each.run)
        if first is None:
            after.append(each)
        elif not first.is_over:
            raise QueueError(
                f"{entry.id} is to start after {first.id}", fix=f"remove {entry.id} first, or both at once"
            )
        elif each.condition is Condition.SUCCEEDED and first.outcome != SUCCEEDED:
            after.append(replace(each, run=first.run))
    return replace(entry, after=tuple(after))


def must_wait(entry: Entry) -> Entry:
    """Return an entry that waits. Raises QueueError if it does not."""
    if entry.stage is Stage.WAITING:
        return entry
    stop = (
        "" if entry.is_over else f"`torchdeck runs stop {entry.run}` stops it" if entry.run else "try again"
    )
    what = {
        Stage.STARTING: "is being started",
        Stage.RUNNING: f"runs as {entry.run}",
        Stage.ENDED: "has ended",
    }[entry.stage]
    raise QueueError(f"{entry.id} does not wait any more: it {what}", fix=stop)
