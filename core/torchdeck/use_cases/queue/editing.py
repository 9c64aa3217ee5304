"""Changes of entries that wait, and of the queue's limits. All raise QueueError."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from torchdeck.queue.entry import Entry
from torchdeck.queue.queue_file import change_queue
from torchdeck.queue.state import Queue, QueueError, QueueLimits, must_wait


def move(home: Path, entry_id: str, before: str | None) -> Queue:
    """Move an entry before another one, with the priority of that one; None: behind all others."""
    return change_queue(home, lambda queue: queue.moved(entry_id, before))


def move_first(home: Path, entry_id: str) -> Queue:
    """Move an entry before all others."""

    def change(queue: Queue) -> Queue:
        return queue.moved(entry_id, queue.waiting()[0].id if queue.waiting() else None)

    return change_queue(home, change)


def move_last(home: Path, entry_id: str) -> Queue:
    """Move an entry behind all others, also behind those with a lower priority, which it then has, too."""

    def change(queue: Queue) -> Queue:
        moved = must_wait(queue.find(entry_id))
        lowest = min(entry.priority for entry in queue.waiting())
        return queue.with_entry(replace(moved, priority=lowest)).moved(moved.id, None)

    return change_queue(home, change)


def set_priority(home: Path, entry_id: str, priority: int) -> Queue:
    """Give an entry another priority; it keeps its order of arrival."""
    return _change_each(home, [entry_id], lambda entry: replace(must_wait(entry), priority=priority))


def pause(home: Path, ids: Sequence[str]) -> Queue:
    """Let entries wait until `resume`, whatever is free."""
    return _change_each(home, ids, lambda entry: replace(must_wait(entry), paused=True))


def resume(home: Path, ids: Sequence[str]) -> Queue:
    """Let paused entries start again."""
    return _change_each(home, ids, lambda entry: replace(must_wait(entry), paused=False, note=""))


def remove(home: Path, ids: Sequence[str]) -> Queue:
    """Remove entries that do not run, and for which no other one waits. Their runs stay as they are."""

    def change(queue: Queue) -> Queue:
        entries = [queue.find(entry_id) for entry_id in ids]
        for entry in entries:
            if not entry.is_over:
                must_wait(entry)
        return queue.without([entry.id for entry in entries])

    return change_queue(home, change)


def set_limits(home: Path, change: Callable[[QueueLimits], QueueLimits]) -> QueueLimits:
    """Change the limits; they hold from the next start on."""

    def changed(queue: Queue) -> Queue:
        limits = change(queue.limits)
        numbers = [limits.default_slots, *limits.slots.values()]
        if min(numbers) < 0:
            raise QueueError("a number of CPU slots is below 0", fix="0 or more")
        return replace(queue, limits=limits)

    return change_queue(home, changed).limits


def _change_each(home: Path, ids: Sequence[str], change: Callable[[Entry], Entry]) -> Queue:
    def changed(queue: Queue) -> Queue:
        for entry_id in ids:
            queue = queue.with_entry(change(queue.find(entry_id)))
        return queue

    return change_queue(home, changed)
