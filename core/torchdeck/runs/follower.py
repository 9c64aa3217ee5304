"""Following one run on disk: each look reads only what was appended since the last one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import read_json
from torchdeck.contract.folder_names import FolderNames
from torchdeck.contract.journal import Event, JournalReader, reader_of_node
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.ended_ranks import read_exit_files
from torchdeck.runs.links import Links, read_links
from torchdeck.runs.liveness import look
from torchdeck.runs.replay.created import rebuilt_created
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.replay.journal_damage import JournalDamage
from torchdeck.runs.state import RunState
from torchdeck.runs.view import RunView, view

HEARTBEAT_LIMIT = 8 * 1024 * 1024
"""Bytes of a node's heartbeat; each of its ranks takes some hundreds."""


class RunFollower:
    """The files of one run directory, pulled into a RunView on demand."""

    def __init__(self, layout: RunLayout, *, clock: Callable[[], float] = time.time) -> None:
        self.layout = layout
        self.run_id = layout.root.name
        self._clock = clock
        self._history = RunHistory()
        self._journal = JournalReader(layout.journal)
        self._names_in = FolderNames()
        self._nodes: dict[str, JournalReader] = {}
        self._rebuilt: Event | None = None
        self.links: Links | None = None
        """How its nodes were reached at the last look; None for a run of this machine alone."""

    def refresh(self) -> RunView:
        """The view as of now. What a node sent never makes it raise.

        Raises:
            NewerFormatError: a journal of this machine is from a newer Torchdeck.
            OSError: this machine's own files cannot be read.
        """
        self._read()
        heartbeats = {node: self._heartbeat(self.layout.node(node).heartbeat) for node in self._nodes}
        now = self._clock()
        self.links = read_links(self.layout)
        damaged = any(damage.hides_events for damage in self._damage())
        liveness = look(self.run_id, self._history, heartbeats, self.links, now, damaged=damaged)
        # a process that was dead at the look has written all it ever will: read that before judging
        self._read()
        found = view(self.run_id, self._history, heartbeats, liveness, self._clock(), self._damage())
        if found.state is RunState.LOST and not found.end_written and self._read_exit_files(found):
            found = view(self.run_id, self._history, heartbeats, liveness, self._clock(), self._damage())
        return found

    def has_taken(self, request_id: str) -> bool:
        """Whether an agent had taken the request at the last look."""
        return self._history.has_taken(request_id)

    @property
    def controller_pid(self) -> int | None:
        """Of the run's newest controller, at the last look; it may live no more."""
        return None if self._history.controller is None else self._history.controller.pid

    def _damage(self) -> tuple[JournalDamage, ...]:
        """What could not be read, the controller's journal first."""
        found = [JournalDamage.of(self._journal, self._journal.path.name)]
        for node, reader in self._nodes.items():
            path = reader.path.relative_to(self.layout.root).as_posix()
            found.append(JournalDamage.of(reader, path, node))
        return tuple(damage for damage in found if damage is not None)

    def _read(self) -> None:
        for event in self._journal.read_new():
            self._history.controller_event(event)
        self._rebuild_created()
        for node in self._names_in(self.layout.nodes):
            if node not in self._nodes:
                if not self.layout.node(node).root.is_dir():
                    continue
                self._nodes[node] = reader_of_node(self.layout.node(node))
            for event in self._nodes[node].read_new():
                self._history.node_event(node, event)

    def _read_exit_files(self, found: RunView) -> bool:
        """Of a run that nothing is alive of: how its ranks ended; whether that is news."""
        current = next((each for each in found.attempts if each.number == found.attempt), None)
        exits = [] if current is None else read_exit_files(self.layout, current, found.world_size)
        for each in exits:
            self._history.rank_ended(found.attempt or 0, each)
        return bool(exits)

    def _rebuild_created(self) -> None:
        """The journal's first line may be damaged; the plan has what it said."""
        if self._history.created is None:
            self._rebuilt = self._rebuilt or rebuilt_created(self.layout)
            self._history.created = self._rebuilt

    @staticmethod
    def _heartbeat(path: Path) -> Mapping[str, Any]:
        try:
            value = read_json(path, limit=HEARTBEAT_LIMIT)
        except OSError:
            return {}
        return value if isinstance(value, Mapping) else {}


def read_run(layout: RunLayout) -> RunView:
    """The view of one run as of now; raises as `RunFollower.refresh`."""
    return RunFollower(layout).refresh()
