"""The queue as front ends show it: entries in their order, with what the server last decided."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.queue.entry import Entry, Stage
from torchdeck.queue.queue_file import read_queue
from torchdeck.queue.scheduling.scheduler import Wait
from torchdeck.queue.scheduling.sentences import needs
from torchdeck.queue.state import QueueLimits
from torchdeck.use_cases.queue.status import ServerStatus, read_status


@dataclass(frozen=True)
class ListedEntry:
    """One entry as it is shown."""

    entry: Entry
    why: str
    """Why it waits or is over, as a sentence; empty if there is nothing to say."""
    wait: Wait | None = None
    """The server's last decision about it; None if there is none."""

    @property
    def state(self) -> str:
        """Return its stage, `paused`, or how its run ended."""
        if self.entry.is_over:
            return self.entry.outcome
        return "paused" if self.entry.stage is Stage.WAITING and self.entry.paused else self.entry.stage.value

    @property
    def needs(self) -> str:
        """Return what it asks for."""
        return needs(self.entry.ask)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; times in seconds since the epoch."""
        entry = self.entry
        return {
            "id": entry.id,
            "name": entry.name,
            "stage": entry.stage.value,
            "paused": entry.paused,
            "why": self.why,
            "estimated_start": None if self.wait is None else self.wait.estimate,
            "latest_start": None if self.wait is None else self.wait.certain,
            "needs": self.needs,
            "nodes": list(entry.ask.nodes),
            "priority": entry.priority,
            "user": entry.user,
            "tags": list(entry.tags),
            "after": [str(each) for each in entry.after],
            "source": entry.file.path if entry.file.is_file else "",
            "overrides": list(entry.file.overrides),
            "added": entry.added,
            "expected_seconds": entry.expected,
            "places": [{"node": node, "gpus": list(gpus)} for node, gpus in entry.places],
            "begun": entry.begun,
            "run": entry.run,
            "ended": entry.ended,
            "outcome": entry.outcome,
        }


@dataclass(frozen=True)
class QueueListing:
    """The queue as it is shown."""

    entries: tuple[ListedEntry, ...]
    """Running ones, waiting ones in their order, ended ones."""
    server: ServerStatus
    limits: QueueLimits
    problems: tuple[str, ...]
    """Sentences about damage and about what the server cannot do."""


def list_queue(home: Path) -> QueueListing:
    """Return the queue of a home. Raises QueueError."""
    queue, server = read_queue(home), read_status(home)
    active = [entry for entry in queue.entries if entry.has_devices]
    over = sorted((entry for entry in queue.entries if entry.is_over), key=lambda entry: entry.ended or 0.0)
    entries = tuple(_listed(entry, server) for entry in (*active, *queue.waiting(), *over))
    return QueueListing(
        entries, server, queue.limits, tuple(dict.fromkeys((*queue.damage, *server.problems)))
    )


def _listed(entry: Entry, server: ServerStatus) -> ListedEntry:
    if entry.stage is not Stage.WAITING:
        return ListedEntry(entry, entry.note)
    if entry.paused:
        return ListedEntry(entry, entry.note)
    wait = server.waits.get(entry.id)
    return ListedEntry(entry, entry.note if wait is None else wait.why, wait)
