"""Terminals on nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torchdeck.use_cases.opening.programs import Programs
from torchdeck.use_cases.opening.shell import node_shell, open_terminal
from torchdeck_app.bridge.operations import Operations


class NodeTerminals:
    """Opens terminals on nodes, off the GUI thread.

    Args:
        operations: runs the work.
        home: TORCHDECK_HOME.
        reported: called with a sentence if one cannot be opened.
    """

    def __init__(self, operations: Operations, home: Path, reported: Callable[[str], None]) -> None:
        self._operations, self._home, self._reported = operations, home, reported
        self.programs = Programs()

    def open(self, name: str) -> None:
        """Open a terminal on a node, in its Python environment."""
        self._operations.run(
            f"opening a terminal on {name}",
            lambda _progress, _cancel: open_terminal(
                node_shell(name, self._home, self.programs), self.programs
            ),
            failed=lambda error: self._reported(f"No terminal was opened: {error}"),
        )
