"""What a person asks of runs: carried out off the GUI thread, its outcome told by signals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.folders.deletion import put_back, run_of, set_aside
from torchdeck.use_cases.attach import attach
from torchdeck.use_cases.delete import NodeDeletion, finish_deletions, remove_deleted
from torchdeck.use_cases.resume import resume
from torchdeck.use_cases.stop_request import StopRequest, request_stop
from torchdeck.use_cases.ui import Ui
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Cancel, Operations
from torchdeck_app.bridge.worker_ui import WorkerUi
from torchdeck_app.runs.commands.abilities import RunCommand
from torchdeck_app.runs.commands.request_carriers import Carried, RequestCarriers
from torchdeck_app.runs.configuration.reading import clone_text

ORIGIN = "window"


@dataclass(frozen=True)
class Deleted:
    """Runs that were deleted and can still be put back."""

    names: tuple[str, ...]
    ids: tuple[str, ...]
    folders: tuple[Path, ...]


class RunCommands(QObject):
    """Asks runs for things; the person, too, for what their nodes want."""

    clone_ready = Signal(str, str)
    """The text of a run file, and where that came from."""
    deleted = Signal(object)
    """An Aside."""
    failed = Signal(str, str)
    """A run's id, and why what was asked of it cannot be done."""
    under_way_changed = Signal()
    runs_touched = Signal()
    """Something was written: looking at the list again is worth it."""

    def __init__(self, operations: Operations, logins: Logins, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._operations = operations
        self._logins = logins
        self._asked: set[tuple[str, str]] = set()
        self._is_closed = False
        self._carriers = RequestCarriers(self)
        self._carriers.changed.connect(self._take_carried)

    def under_way(self, run_id: str) -> frozenset[str]:
        """What was asked of a run and not taken yet."""
        return frozenset(what for id_, what in (*self._asked, *self._carriers.under_way) if id_ == run_id)

    def carry_out(self, what: RunCommand, layout: RunLayout) -> None:
        """A command that is about one run."""
        match what:
            case RunCommand.STOP:
                self.stop(layout)
            case RunCommand.STOP_NOW:
                self.stop(layout, now=True)
            case RunCommand.RESUME:
                self.resume(layout)
            case RunCommand.ATTACH:
                self.attach(layout)
            case RunCommand.CLONE:
                self.clone(layout)
            case _:
                raise ValueError(f"{what.words} is not about one run")

    def stop(self, layout: RunLayout, *, now: bool = False) -> None:
        """Ask for a stop after the step, with a checkpoint; or, `now`, for the end of every process."""
        kind = RunCommand.STOP_NOW if now else RunCommand.STOP

        request = StopRequest(layout, ORIGIN, now=now, wait=False)
        # from the end of the call on it is carried, whatever becomes of the operation
        self._run(layout, kind, lambda ui: self._carriers.add(request_stop(request, ui)))

    def resume(self, layout: RunLayout) -> None:
        """Go on from the newest complete checkpoint."""
        self._run(layout, RunCommand.RESUME, lambda ui: resume(layout, ORIGIN, ui))

    def attach(self, layout: RunLayout) -> None:
        """Follow a run again that goes on on other machines: ask for what is wanted, start a controller."""
        self._run(layout, RunCommand.ATTACH, lambda ui: attach(layout, ui, until_followed=True))

    def ui(self, progress: Callable[[str], None], cancel: Cancel) -> WorkerUi:
        """The front end of a use case in a worker: controllers that it starts are reaped."""
        return WorkerUi(self._logins.asking, progress, cancel, self._carriers.add_controller)

    def clone(self, layout: RunLayout, checkpoint: Path | None = None) -> None:
        """Hand out the run's file as it was, to begin with `checkpoint` where one is given."""
        self._operations.run(
            f"reading the configuration of {layout.root.name}",
            lambda _progress, _cancel: clone_text(layout, checkpoint),
            done=lambda found: self.clone_ready.emit(*found),
            failed=lambda error: self.failed.emit(layout.root.name, str(error)),
        )

    def delete(self, runs: Sequence[tuple[str, RunLayout]]) -> None:
        """Set runs (name, layout) aside; whoever hears `deleted` removes them or puts them back."""

        def call(progress: Callable[[str], None], _cancel: object) -> tuple[Deleted, list[tuple[str, str]]]:
            gone, errors = [], []
            for name, layout in runs:
                progress(f"deleting {name}")
                try:
                    gone.append((name, layout.root.name, set_aside(layout)))
                except Exception as error:  # noqa: BLE001 - said beside the run it is about
                    errors.append((layout.root.name, f"it cannot be deleted: {error}"))
            names, ids, folders = zip(*gone, strict=True) if gone else ((), (), ())
            return Deleted(names, ids, folders), errors

        def done(outcome: tuple[Deleted, list[tuple[str, str]]]) -> None:
            aside, errors = outcome
            if aside.folders:
                self.deleted.emit(aside)
            for run_id, why in errors:
                self.failed.emit(run_id, why)
            self.runs_touched.emit()

        self._operations.run("deleting runs", call, done=done)

    def put_back(self, aside: Deleted) -> None:
        """Undo a deletion."""
        self._operations.run(
            "putting runs back",
            lambda _progress, _cancel: [put_back(folder) for folder in aside.folders],
            done=lambda _layouts: self.runs_touched.emit(),
            failed=lambda error: self.failed.emit("", f"a run cannot be put back: {error}"),
        )

    def remove(self, aside: Deleted) -> None:
        """Delete for good what was set aside, and what nodes have of it that can be logged in to unasked."""

        def call(progress: Callable[[str], None], cancel: Cancel) -> list[NodeDeletion]:
            told: list[NodeDeletion] = []
            ui = WorkerUi(self._logins.quiet, progress, cancel)
            for name, run_id, folder in zip(aside.names, aside.ids, aside.folders, strict=True):
                progress(f"removing {name}")
                told += remove_deleted(folder, run_id, ui)
            return told

        def done(told: list[NodeDeletion]) -> None:
            left = [str(each) for each in told if each.why]
            if left:
                self.failed.emit("", "\n".join(left))

        self._operations.run(
            "removing deleted runs",
            call,
            done=done,
            failed=lambda error: self.failed.emit("", f"a deleted run cannot be removed entirely: {error}"),
        )

    def go_on_deleting(self) -> None:
        """Remove what somebody set aside and did not live to remove, on nodes that let us in unasked too."""

        def call(progress: Callable[[str], None], cancel: Cancel) -> dict[Path, tuple[str, ...]]:
            return finish_deletions(self._logins.home, WorkerUi(self._logins.quiet, progress, cancel))

        def done(removed: dict[Path, tuple[str, ...]]) -> None:
            left = {run_of(aside.name): nodes for aside, nodes in removed.items() if nodes}
            for run_id, nodes in left.items():
                later = f"`torchdeck runs delete {run_id} --node {' '.join(nodes)}` removes it there"
                self.failed.emit("", f"deleted run {run_id} may be left on {', '.join(nodes)}: {later}")

        self._operations.run("removing deleted runs", call, done=done)

    @staticmethod
    def copy(text: str) -> None:
        """Put `text` on the clipboard."""
        QGuiApplication.clipboard().setText(text)

    @staticmethod
    def open_folder(layout: RunLayout) -> None:
        """Show the run's directory in the desktop's file manager."""
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(layout.root)))

    def close(self) -> None:
        """Threads end; what is on its way is in the run's control folder, and stays there."""
        self._is_closed = True
        self._carriers.stop(1.0)

    def _run(self, layout: RunLayout, what: RunCommand, call: Callable[[Ui], object]) -> None:
        asked = (layout.root.name, what)
        self._logins.ask_again()
        self._asked.add(asked)
        self.under_way_changed.emit()

        def over() -> None:
            self.look_after()
            self._asked.discard(asked)
            self.under_way_changed.emit()
            self.runs_touched.emit()

        def failed(error: Exception) -> None:
            over()
            self.failed.emit(layout.root.name, str(error))

        name = layout.root.name
        operation = self._operations.run(
            f"attaching to {name}" if what == RunCommand.ATTACH else f"asking {name} to {what.words}",
            lambda progress, cancel: call(self.ui(progress, cancel)),
            done=lambda _nothing: over(),
            failed=failed,
        )
        operation.cancelled.connect(over)

    def look_after(self) -> None:
        """See to what a worker has begun, also one that was cancelled: carry requests, reap controllers."""
        if not self._is_closed:
            self._carriers.start()

    def _take_carried(self, carried: Carried) -> None:
        for run_id, why in carried.errors:
            self.failed.emit(run_id, why)
        self.under_way_changed.emit()
        self.runs_touched.emit()
