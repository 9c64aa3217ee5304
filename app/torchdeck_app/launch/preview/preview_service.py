"""Keeps a preview up to date with a run file being edited: the newest wins, and nothing blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from torchdeck.config.loader import LoadedConfig
from torchdeck.config.problems import Problem
from torchdeck.contract.inventory import Inventory, NodeInfo
from torchdeck.contract.refusal import Refusal, refusal_of
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.this_machine import probe_local
from torchdeck.use_cases.previewer import Previewed, Previewer
from torchdeck_app.bridge.operations import Cancel, Operation, Operations
from torchdeck_app.launch.preview.preview_state import Checked, PreviewState
from torchdeck_app.launch.preview.rank_grid_model import RankGridModel, board_model

TRACING = "tracing the model"
NOTICED = 200
"""Milliseconds after which the first preview shows what it waits for."""
SLOW = 1000
"""Same for later previews, while the previous one stays visible."""


class PreviewService(QObject):
    """Service that creates a preview of each document off the GUI thread.

    While one is created, only the newest later request is kept. An unknown model is traced meanwhile by a
    process of its own; there is a preview without it first, and one with it afterwards.
    """

    updated = Signal(object)
    """Emitted with a PreviewState; also if only the tracing has changed."""

    def __init__(
        self,
        operations: Operations,
        home: Path,
        parent: QObject | None = None,
        *,
        previewer: Previewer | None = None,
        connector: Connector | None = None,
    ) -> None:
        """Args:
        operations: runs blocking work.
        home: TORCHDECK_HOME.
        parent: Qt parent.
        previewer: replaces the one for `home`.
        connector: connects to nodes of the node inventory; None: without prompting for logins.
        """
        super().__init__(parent)
        self._operations = operations
        self._previewer = Previewer(home, connector) if previewer is None else previewer
        self._state = PreviewState()
        self._newest: Checked | None = None
        self._planning: Operation[tuple[Previewed, RankGridModel | None]] | None = None
        self._again = False
        self._tracing: Operation[None] | None = None
        self._key = ""
        self._documents = 0  # number of earlier documents
        self._is_others = False
        self.free = FreeWatch(operations, self)
        self.free.moved.connect(self._plan)
        self._slow = QTimer(self)
        self._slow.setSingleShot(True)
        self._slow.timeout.connect(self._say_slow)

    @property
    def operations(self) -> Operations:
        """Return the runner that the views of the preview share."""
        return self._operations

    @property
    def state(self) -> PreviewState:
        """Return the last state emitted."""
        return self._state

    def reset(self) -> None:
        """Reset for another document: the last one's preview stays at most until this one's is available."""
        self._documents += 1
        self._newest = None
        self._is_others = self._state.preview is not None
        self._slow.stop()
        self._end_tracing()

    def request(self, checked: Checked) -> None:
        """Preview `checked`; if that is not possible, report it and keep the last preview."""
        self._newest = checked
        if checked.loaded is None:
            # tracing continues: a keystroke later the file may be valid again
            self._tell_without_preview(checked, problems=checked.problems)
            return
        self._plan()

    def refresh(self) -> None:
        """Probe machine, code and data again, and retry failures."""
        self._previewer.look_again()
        self._plan()

    def trust(self, folder: Path) -> None:
        """Trust the code in `folder`, and preview with it."""
        self._run("trusting a folder", lambda *_: self._previewer.trust(folder), lambda _: self._plan())

    def cancel_tracing(self) -> None:
        """Cancel the current tracing; the preview stays without its results."""
        if self._tracing is None:
            return
        self._previewer.give_up(self._key)
        self._end_tracing()
        self._tell()
        self._plan()

    def watch(self, *, watching: bool) -> None:
        """Watch free memory on this machine while the preview is visible."""
        self.free.watch(watching=watching)

    def close(self) -> None:
        """End all work, and emit nothing more."""
        self._newest = None
        self.free.watch(watching=False)
        self._slow.stop()
        self._end_tracing()
        if self._planning is not None:
            self._planning.cancel()

    def _plan(self) -> None:
        if self._newest is None or self._newest.loaded is None:
            return
        if self._planning is not None:
            self._again = True
            return
        checked, loaded, previewer = self._newest, self._newest.loaded, self._previewer
        shown = self._state.board

        def call(_progress: Callable[[str], None], cancel: Cancel) -> tuple[Previewed, RankGridModel | None]:
            made = previewer.preview(loaded, cancel.check)
            board = None if made.preview is None else board_model(made.preview, made.inventory)
            # most edits leave all ranks as they are: identical objects need no repaint
            return made, shown if board == shown else board

        self._again = False
        self._slow.start(NOTICED if self._state.preview is None or self._is_others else SLOW)
        documents = self._documents
        self._planning = self._run(
            "previewing the run",
            call,
            lambda made: self._planned(documents, checked, loaded, *made),
            lambda error: self._failed(documents, checked, error),
        )

    def _planned(
        self,
        documents: int,
        checked: Checked,
        loaded: LoadedConfig,
        made: Previewed,
        board: RankGridModel | None,
    ) -> None:
        self.free.seen(made.inventory)
        if self._stop_waiting(documents):
            if not self._again:
                self._follow_with_tracing(loaded, made)
            self._show(checked, loaded, made, board)
        if self._again:
            self._plan()

    def _stop_waiting(self, documents: int) -> bool:
        """Return whether a plan made with `documents` earlier ones is still relevant.

        It is not if the newest document cannot be planned, or is another one.
        """
        self._planning = None
        if documents != self._documents:
            return False
        self._slow.stop()
        if self._newest is not None and self._newest.loaded is not None:
            self._state = replace(self._state, waiting="")
            return True
        if self._newest is not None and self._state.waiting:
            self._tell(waiting="")
        return False

    def _show(
        self, checked: Checked, loaded: LoadedConfig, made: Previewed, board: RankGridModel | None
    ) -> None:
        known: dict[str, Any] = {"held": made.held, "cancelled": made.given_up}
        if made.preview is None:
            self._tell_without_preview(checked, problems=made.problems, **known)
            return
        self._is_others = False
        self._tell(
            preview=made.preview,
            plan=made.preview.plan,
            loaded=loaded,
            board=board,
            problems=made.problems,
            error=None,
            version=checked.version,
            stale=False,
            **known,
        )

    def _failed(self, documents: int, checked: Checked, error: Exception) -> None:
        """Handle an error that is not caused by the document: an unreadable folder, or a bug."""
        if self._stop_waiting(documents):
            self._tell_without_preview(checked, error=refusal_of(error))
        if self._again:
            self._plan()

    def _tell_without_preview(
        self,
        checked: Checked,
        *,
        problems: tuple[Problem, ...] = (),
        error: Refusal | None = None,
        **known: Any,
    ) -> None:
        """Emit the state of `checked` without a preview: the previous one stays, marked as outdated."""
        self._drop_others()
        stale = self._state.preview is not None
        self._tell(problems=problems, error=error, stale=stale, version=checked.version, **known)

    def _drop_others(self) -> None:
        """Drop the preview of another document."""
        if self._is_others:
            self._is_others = False
            self._state = PreviewState()

    def _say_slow(self) -> None:
        self._drop_others()
        self._tell(waiting="reading machine, code and data")

    def _follow_with_tracing(self, loaded: LoadedConfig, made: Previewed) -> None:
        """Trace what `made` lacks, and stop tracing what it does not need."""
        if self._tracing is not None and self._key != made.untraced:
            self._end_tracing()
        if not made.untraced or self._tracing is not None:
            return
        previewer = self._previewer

        def call(progress: Callable[[str], None], _cancel: Cancel) -> None:
            previewer.trace(loaded, progress)

        self._key = made.untraced
        operation = self._run(TRACING, call, self._traced, self._tracing_failed)
        self._tracing = operation
        self._state = replace(self._state, tracing=f"{TRACING}: starting")
        operation.progressed.connect(lambda text: self._progressed(operation, text))

    def _progressed(self, operation: Operation[None], text: str) -> None:
        if operation is self._tracing and self._state.tracing != f"{TRACING}: {text}":
            self._tell(tracing=f"{TRACING}: {text}")

    def _traced(self, _none: object) -> None:
        self._tracing = None
        if self._newest is not None and self._newest.loaded is None:
            self._tell(tracing="")
            return
        self._state = replace(self._state, tracing="")
        self._plan()

    def _tracing_failed(self, error: Exception) -> None:
        """Handle an error not caused by the model, which the previewer detects by itself; it is not
        retried.
        """
        self._previewer.give_up(self._key)
        self._tracing = None
        self._tell(tracing="", error=refusal_of(error))

    def _end_tracing(self) -> None:
        if self._tracing is not None:
            self._tracing.cancel()
            self._tracing = None
            self._state = replace(self._state, tracing="")

    def _tell(self, **newer: Any) -> None:
        self._state = replace(self._state, **newer)
        self.updated.emit(self._state)

    def _run(
        self,
        name: str,
        call: Callable[[Callable[[str], None], Cancel], Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> Operation[Any]:
        if failed is None:
            failed = self._refused
        return self._operations.run(name, call, done=done, failed=failed)

    def _refused(self, error: Exception) -> None:
        self._tell(error=refusal_of(error))


LOOK = 5000
"""Milliseconds between two polls."""


class FreeWatch(QObject):
    """Poller off the GUI thread, one poll at a time."""

    moved = Signal()
    """Emitted if other programs have taken or freed memory since the last `seen`."""

    def __init__(self, operations: Operations, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._operations = operations
        self._seen: Inventory | None = None
        self._looking = False
        self._timer = QTimer(self, interval=LOOK)
        self._timer.timeout.connect(self._look)

    def seen(self, inventory: Inventory) -> None:
        """Set the last probed state of the machines."""
        self._seen = inventory

    def watch(self, *, watching: bool) -> None:
        """Start, or stop."""
        if watching:
            self._timer.start()
        else:
            self._timer.stop()

    def _look(self) -> None:
        seen = self._seen
        if seen is None or self._looking or not has_local(seen):
            return
        self._looking = True

        def over(moved: bool) -> None:  # noqa: FBT001 - what the operation returned
            self._looking = False
            if moved and self._timer.isActive():
                self.moved.emit()

        self._operations.run(
            "checking free memory",
            lambda *_: has_moved(seen),
            done=over,
            failed=lambda _error: over(False),  # noqa: FBT003 - as above
        )


# Detects whether other processes have taken or freed much memory of this machine since the probe. Without
# Qt.

_MUCH = 0.02
"""Share of the memory of a device, or of the machine, below which a change does not affect a preview."""


def has_local(seen: Inventory) -> bool:
    """Return whether some machine of `seen` was probed, and not only described."""
    return any(not node.described for node in seen)


def has_moved(seen: Inventory, probe: Callable[[str], NodeInfo] = probe_local) -> bool:
    """Probe the machines of `seen` that can be probed; return whether their free memory has changed."""
    return any(_differs(node, probe(node.name)) for node in seen if not node.described)


def _differs(before: NodeInfo, now: NodeInfo) -> bool:
    pairs = [(before.free_bytes, now.free_bytes, now.memory_bytes)]
    if [device.key for device in before.devices] != [device.key for device in now.devices]:
        return True
    pairs += [
        (old.free_bytes, new.free_bytes, new.memory_bytes)
        for old, new in zip(before.devices, now.devices, strict=True)
    ]
    return any(
        old is not None and new is not None and abs(new - old) > _MUCH * whole for old, new, whole in pairs
    )
