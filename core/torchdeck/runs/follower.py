"""Following one run on disk: each look reads only what was appended since the last one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torchdeck.rundir.atomic import read_json
from torchdeck.rundir.journal import JournalReader
from torchdeck.rundir.layout import RunLayout
from torchdeck.runs.history import RunHistory
from torchdeck.runs.liveness import look
from torchdeck.runs.view import RunView, view


class RunFollower:
    """The files of one run directory, pulled into a RunView on demand."""

    def __init__(self, layout: RunLayout, *, clock: Callable[[], float] = time.time) -> None:
        self.layout = layout
        self.run_id = layout.root.name
        self._clock = clock
        self._history = RunHistory()
        self._journal = JournalReader(layout.journal)
        self._nodes: dict[str, JournalReader] = {}

    def refresh(self) -> RunView:
        """The view as of now.

        Raises:
            NewerFormatError: a journal is from a newer Torchdeck.
        """
        self._read()
        heartbeats = {node: self._heartbeat(self.layout.node(node).heartbeat) for node in self._nodes}
        liveness = look(self.run_id, self._history, heartbeats)
        # a process that was dead at the look has written all it ever will: read that before judging
        self._read()
        return view(self.run_id, self._history, heartbeats, liveness, self._clock(), self._torn)

    @property
    def _torn(self) -> int:
        return self._journal.torn + sum(reader.torn for reader in self._nodes.values())

    def _read(self) -> None:
        for event in self._journal.read_new():
            self._history.controller_event(event)
        for node in _names(self.layout.nodes):
            if node not in self._nodes:
                self._nodes[node] = JournalReader(self.layout.node(node).journal)
            for event in self._nodes[node].read_new():
                self._history.node_event(node, event)

    @staticmethod
    def _heartbeat(path: Path) -> Mapping[str, Any]:
        value = read_json(path)
        return value if isinstance(value, Mapping) else {}


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    except FileNotFoundError:
        return []


def read_run(layout: RunLayout) -> RunView:
    """The view of one run as of now; raises as `RunFollower.refresh`."""
    return RunFollower(layout).refresh()
