"""View of a run's checkpoints and their actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QMessageBox,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import counted, size
from torchdeck.runs.folders.checkpoints import RunCheckpoint, run_checkpoints, unnoticed_checkpoint
from torchdeck.runs.folders.verdicts import Verdict, read_verdicts, still_true
from torchdeck.runs.foreign import why_no_start
from torchdeck.runs.view import RunView
from torchdeck.use_cases.checkpoints.here import (
    Verification,
    delete_checkpoint,
    refuse_held,
    sharing_runs,
)
from torchdeck_app.bridge.background_loop import Poller
from torchdeck_app.bridge.operations import Cancel, Operations
from torchdeck_app.runs.abilities import abilities
from torchdeck_app.runs.page.checkpoint_list import CheckpointList, going_on, soundness
from torchdeck_app.runs.page.checkpoint_work import exported, exported_weights, verified
from torchdeck_app.runs.page.no_checkpoints import NoCheckpoints
from torchdeck_app.runs.run_panel import RunPanel
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.dialogs import Choice, ask
from torchdeck_app.widgets.help import ErrorLine, page_of
from torchdeck_app.widgets.inputs import set_enabled
from torchdeck_app.widgets.labels import ElidedLabel, plain_tip
from torchdeck_app.widgets.panel import GRID

T = TypeVar("T")
_INTERVAL = 1.0
_TICK = 5000
"""Milliseconds between two updates of relative times such as `3 min ago`."""
_TIPS = {
    "verify": "Hash every file and compare it with the manifest; remembered until the checkpoint changes",
    "resume": "Resume from here: the newest checkpoint continues this run; an older one starts a new "
    "run,\nwhose configuration opens in Launch first",
    "export": "Write the weights as safetensors and JSON, for other tools",
    "delete": "Delete this checkpoint; it cannot be undone",
}


class _Seen(NamedTuple):
    rows: tuple[RunCheckpoint, ...]
    verdicts: Mapping[Path, Verdict]
    unnoticed: Path | None
    """One that no row shows, if there is no row."""


class CheckpointsView(RunPanel):
    """Panel that polls the run's checkpoint directory while visible."""

    resume_asked = Signal()
    clone_asked = Signal(object)
    """Emitted to clone the run from the checkpoint at this Path."""

    def __init__(
        self, theme: Theme, operations: Operations, layout: RunLayout, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._operations = operations
        self._layout = layout
        self._view: RunView | None = None
        self._rows: tuple[RunCheckpoint, ...] = ()
        self._verdicts: Mapping[Path, Verdict] = {}
        self._own: dict[Path, Verdict] = {}
        """Those of this page: the file may not take them."""
        self._unnoticed: Path | None = None
        """Found by the search once the run was over; only the thread uses it."""
        self._has_searched = False
        self._busy: set[Path] = set()
        self._home = layout.home.root
        self._poller = Poller[_Seen]("checkpoints", self._look, _INTERVAL, self)
        self._poller.changed.connect(self._take)
        self._poller.failed.connect(self._say_failed)
        self.list = CheckpointList(theme)
        self.list.selectionModel().selectionChanged.connect(self._enable)
        self.buttons = {
            "verify": self._button("Verify", self._verify),
            "resume": self._button("Resume from here", self._continue),
            "export": self._button("Export …", self._ask_where),
            "delete": self._button("Delete …", self._ask_delete),
        }
        self.buttons["delete"].setProperty("role", "destructive")
        self.said = ErrorLine()
        self.note = ElidedLabel()
        self.note.setProperty("role", "secondary")
        """Explains what resuming from the selected one means."""
        self.empty = NoCheckpoints(theme)
        self._stack = QStackedWidget()
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self._listed())
        QVBoxLayout(self).addWidget(self._stack)
        theme.changed.connect(self._show)
        self.clock = QTimer(self, interval=_TICK)
        self.clock.timeout.connect(self._write)
        self._enable()

    def entered(self) -> None:
        self._poller.start()
        self.clock.start()
        self._show()

    def left(self) -> None:
        self._poller.stop()
        self.clock.stop()

    closing = left

    def show_view(self, view: RunView) -> None:
        was_live = self._is_live
        self._view = view
        self.empty.show_view(view)
        if was_live != self._is_live:
            self._show()
        self._enable()

    @property
    def _is_live(self) -> bool:
        return self._view is not None and not self._view.is_over

    @property
    def selected(self) -> RunCheckpoint | None:
        """Return the selected checkpoint."""
        return self.list.selected

    def _look(self) -> _Seen:
        """Do the work, in the thread."""
        rows = run_checkpoints(self._layout)
        known = {**read_verdicts(self._home), **self._own}
        verdicts = still_true(known, (row.info.path for row in rows))
        return _Seen(rows, verdicts, None if rows else self._search())

    def _search(self) -> Path | None:
        """Look in the script's folders for a checkpoint that no row shows, once: they may be large."""
        if self._view is None or self._is_live:
            self._has_searched = False
        elif not self._has_searched:
            self._unnoticed, self._has_searched = unnoticed_checkpoint(self._layout), True
        return self._unnoticed if self._has_searched else None

    def _take(self, seen: _Seen) -> None:
        self._rows, self._verdicts, unnoticed = seen
        self.empty.show_unnoticed(unnoticed)
        self.list.set_rows(self._rows)
        self._show()

    def _show(self) -> None:
        self._stack.setCurrentIndex(1 if self._rows else 0)
        self._write()
        self._enable()

    def _write(self) -> None:
        self.list.write(self._verdicts, is_live=self._is_live)

    def _enable(self) -> None:
        row = self.selected
        why = self._why_not(row)
        for what, button in self.buttons.items():
            set_enabled(button, self.list, on=not why[what])
            button.setToolTip(plain_tip(f"{_TIPS[what]}\nNot now: {why[what]}") if why[what] else _TIPS[what])
        resumes = row is not None and self._is_newest(row)
        self.buttons["resume"].setText("Resume from here" if resumes else "New run from here")
        note = "" if row is None or why["resume"] else going_on(row, resumes=resumes)
        self.note.setText(note)
        self.note.setToolTip(plain_tip(note))

    def _why_not(self, row: RunCheckpoint | None) -> dict[str, str]:
        if row is None:
            return dict.fromkeys(self.buttons, "no checkpoint is selected")
        if row.info.path in self._busy:
            return dict.fromkeys(self.buttons, "an operation on it is running")
        verdict = self._verdicts.get(row.info.path)
        damaged = "it is damaged" if verdict is not None and verdict.problems else ""
        incomplete = "" if row.info.complete else "it is not complete"
        resume = incomplete or damaged
        if not resume and self._view is not None:
            resume = why_no_start(self._view)
        if not resume and self._is_newest(row) and self._view is not None:
            resume = abilities(self._view).resume
        live = "its run is active and manages its checkpoints" if self._is_live else ""
        return {
            "verify": _elsewhere(row) or ("" if row.info.manifest or row.script else "it has no manifest"),
            "resume": resume,
            "export": _elsewhere(row) or incomplete or damaged,
            "delete": live if row.script is None else "its program keeps or deletes it",
        }

    def _is_newest(self, row: RunCheckpoint) -> bool:
        """Return whether resuming the run would use this checkpoint, which requires that the run is over."""
        complete = [each for each in self._rows if each.info.complete]
        over = self._view is not None and not abilities(self._view).resume
        return over and bool(complete) and complete[0].info.path == row.info.path

    def _do(self, act: Callable[[RunCheckpoint], None]) -> None:
        """Do something with the selected checkpoint."""
        if self.selected is not None:
            act(self.selected)

    def _continue(self, row: RunCheckpoint) -> None:
        if self._is_newest(row):
            self.resume_asked.emit()
        else:
            there = row.script.path_there if row.script is not None else ""
            self.clone_asked.emit(Path(there) if there else row.info.path)

    def _verify(self, row: RunCheckpoint) -> None:
        path = row.info.path

        def done(found: Verification) -> None:
            verdict, forgotten = found
            self._own = {**self._own, path: verdict}
            self._verdicts = {**self._verdicts, path: verdict}
            if verdict.problems:
                self._say(f"{path.name} is damaged: {verdict.problems[0]}", "error")
            else:
                sound = f"{path.name}{'' if verdict.unchecked else ' is sound'}: {soundness(row, verdict)}"
                self._say("; ".join(filter(None, (sound, forgotten))), "secondary")

        name = f"verifying {path.name}"
        own = row.script is not None
        self._work(
            path, name, lambda say, cancel: verified(self._home, path, say, cancel, by_script=own), done
        )

    def _ask_where(self, row: RunCheckpoint) -> None:
        dialog = QFileDialog(self, "Export into a new folder", str(Path.home()))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setFileMode(QFileDialog.FileMode.AnyFile)
        dialog.setOption(QFileDialog.Option.DontConfirmOverwrite)
        dialog.selectFile(f"{self._layout.root.name}-{row.info.path.name}")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda target: self.export(row, Path(target)))
        dialog.open()

    def export(self, row: RunCheckpoint, target: Path) -> None:
        """Export the weights of a checkpoint to a new folder."""
        path = row.info.path
        self._work(
            path,
            f"exporting {path.name}",
            lambda say, _cancel: (
                exported(path, target, say) if row.script is None else exported_weights(row.script, target)
            ),
            lambda said: self._say(said, "secondary"),
        )

    def _ask_delete(self, row: RunCheckpoint) -> None:
        path, layout = row.info.path, self._layout

        def call(_say: object, _cancel: object) -> int:
            sharing = sharing_runs(layout)
            refuse_held(layout, sharing)
            return len(sharing)

        def asked(sharing: int) -> None:
            self._say("", "secondary")
            others = sum(each.info.complete for each in self._rows if each.info.path != path)
            delete_question(row, others, sharing, self, lambda: self.delete(row))

        self._work(path, f"looking for runs that use {path.name}", call, asked, self._say_kept)

    def _say_kept(self, error: Exception) -> None:
        self.said.say(f"The checkpoint is not deleted: {error}", page_of(error))

    def delete(self, row: RunCheckpoint) -> None:
        """Delete a checkpoint without confirmation."""
        self._work(
            path := row.info.path,
            f"deleting {path.name}",
            lambda _say, _cancel: delete_checkpoint(self._layout, path),
            lambda _none: self._say(f"{path.name} was deleted", "secondary"),
            self._say_kept,
        )

    def _work(
        self,
        path: Path,
        name: str,
        call: Callable[[Callable[[str], None], Cancel], T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        self._busy.add(path)
        self._say(f"{name.capitalize()} …", "secondary")

        def over() -> None:
            self._busy.discard(path)
            self._poller.poke()
            self._show()
            self._enable()

        operation = self._operations.run(name, call, done=done, failed=failed or self._say_failed)
        operation.progressed.connect(lambda text: self._say(text, "secondary"))
        operation.cancelled.connect(lambda: self._say(f"{name.capitalize()} was cancelled", "secondary"))
        for signal in (operation.succeeded, operation.failed, operation.cancelled):
            signal.connect(lambda *_: over())
        self._enable()

    def _say(self, text: str, role: str) -> None:
        self.said.say(text, role=role)

    def _say_failed(self, error: Exception) -> None:
        self.said.say(str(error), page_of(error))

    def _button(self, text: str, act: Callable[[RunCheckpoint], None]) -> QPushButton:
        button = QPushButton(text)
        button.setAccessibleName(text.removesuffix(" …") + " the selected checkpoint")
        button.clicked.connect(lambda: self._do(act))
        return button

    def _listed(self) -> QWidget:
        bar = QHBoxLayout()
        bar.setSpacing(GRID)
        for button in self.buttons.values():
            bar.addWidget(button)
        bar.addWidget(self.note, 1)
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID)
        column.addWidget(self.list, 1)
        column.addWidget(self.said)
        column.addLayout(bar)
        return page


def _elsewhere(row: RunCheckpoint) -> str:
    node = "" if row.script is None else row.script.node
    return f"it lies on node {node}" if node else ""


def delete_question(
    row: RunCheckpoint, others: int, sharing: int, parent: QWidget, delete: Callable[[], None]
) -> QMessageBox:
    """Ask for confirmation, listing what is lost; Enter and Esc keep the checkpoint.

    Args:
        row: the checkpoint.
        others: complete checkpoints that stay.
        sharing: number of other runs with the same folder, which lose it, too.
        parent: parent of the dialog.
        delete: called if the user confirms.
    """
    stay = "1 complete one stays" if others == 1 else f"{others:,} complete ones stay"
    rest = stay if others else "the run cannot be resumed any more"
    shared = f" {counted(sharing, 'other run')} with the same folder would lose it, too." if sharing else ""
    return ask(
        parent,
        f"Delete {row.info.path.name} ({size(row.info.size)})?",
        f"It cannot be undone; {rest}.{shared}",
        [
            Choice("Delete", QMessageBox.ButtonRole.DestructiveRole, delete),
            Choice("Keep it", QMessageBox.ButtonRole.RejectRole, lambda: None),
        ],
        default=1,
    )
