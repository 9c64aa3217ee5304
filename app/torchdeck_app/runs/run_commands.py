"""Commands of the user to runs: carried out off the GUI thread, with outcomes reported by signals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication

from torchdeck.contract.layout import RunLayout
from torchdeck.trainers.resume import UnknownResumeError
from torchdeck.use_cases.attach import attach
from torchdeck.use_cases.delete import (
    finish_deletions,
    move_to_trash,
    only_here,
    restore,
)
from torchdeck.use_cases.elsewhere.watch import end_watch
from torchdeck.use_cases.resume import SecretsWantedError, keep_arguments, resume
from torchdeck.use_cases.start import keep_secrets
from torchdeck.use_cases.stop import PendingStop, StopRequest, begin_stop
from torchdeck.use_cases.ui import Ui
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Cancel, Operations
from torchdeck_app.bridge.worker_ui import WorkerUi
from torchdeck_app.runs.abilities import RunCommand
from torchdeck_app.runs.outside import OutsidePrograms
from torchdeck_app.runs.rank_reports import profile_report, stacks_report
from torchdeck_app.runs.request_carriers import Carried, RequestCarriers
from torchdeck_app.runs.run_configuration import clone_text
from torchdeck_app.widgets.help import page_of

ORIGIN = "window"


@dataclass(frozen=True)
class Deleted:
    """Deleted runs that can still be restored."""

    names: tuple[str, ...]
    ids: tuple[str, ...]
    folders: tuple[Path, ...]


class HeldRun(NamedTuple):
    """Run that is not deleted without a confirmation: files of its program are nowhere else."""

    name: str
    layout: RunLayout
    why: str


class RunCommands(QObject):
    """Sender of requests to runs; prompts the user for the nodes' logins."""

    clone_ready = Signal(str, str)
    """Emitted with the text of a run file, and a name for the copy."""
    deleted = Signal(object)
    """Emitted with a Deleted."""
    held = Signal(object)
    """Emitted with a sequence of HeldRun."""
    failed = Signal(str, str, str)
    """Emitted with a run's id, why the command failed, and the page of the documentation that helps."""
    arguments_wanted = Signal(object, str)
    """Emitted with a run's layout and its script, if it is not known how that continues from a checkpoint."""
    secrets_wanted = Signal(object, object)
    """Emitted with MissingSecrets, and what resumes the run once `use_secrets` was called."""
    reported = Signal(str, str)
    """Emitted with a run's id and what came of a command whose effect its page does not show."""
    under_way_changed = Signal()
    runs_touched = Signal()
    """Emitted after a write: the list should be refreshed."""

    def __init__(self, operations: Operations, logins: Logins, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._operations = operations
        self._logins = logins
        self._asked: set[tuple[str, str]] = set()
        self._is_closed = False
        self._secrets: dict[str, str] = {}
        """Entered by the user; kept until the window is closed."""
        self.outside = OutsidePrograms(operations, self)
        self.outside.failed.connect(self.failed)
        self._carriers = RequestCarriers(self)
        self._carriers.changed.connect(self._take_carried)

    def under_way(self, run_id: str) -> frozenset[str]:
        """Return the pending requests of a run."""
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
            case RunCommand.STACKS:
                self._run(layout, what, partial(stacks_report, layout))
            case RunCommand.PROFILE:
                self.profile(layout)
            case RunCommand.CLONE:
                self.clone(layout)
            case RunCommand.END_WATCH:
                self.end_watch(layout)
            case _:
                raise ValueError(f"{what.words} is not about one run")

    def stop(self, layout: RunLayout, *, now: bool = False) -> None:
        """Request a stop after the step, with a checkpoint; or, with `now`, kill all processes.

        A run that was lost or cannot be read is stopped by what is left of it.
        """
        request = StopRequest(layout, ORIGIN, now=now, wait=False)

        def call(ui: Ui) -> str:
            begun = begin_stop(request, ui)
            if not isinstance(begun, PendingStop):
                return begun.said
            self._carriers.add(begun)  # from now on it is carried, whatever becomes of the operation
            return ""

        self._run(layout, RunCommand.STOP_NOW if now else RunCommand.STOP, call)

    def resume(self, layout: RunLayout, arguments: Sequence[str] = (), *, keep: bool = False) -> None:
        """Resume from the newest complete checkpoint; a script with `arguments`, which its run file may
        keep.
        """
        secrets = dict(self._secrets)

        def call(ui: Ui) -> str:
            resume(layout, ORIGIN, ui, arguments, secrets)
            return keep_arguments(layout, arguments) if keep else ""

        def failed(error: Exception) -> None:
            if isinstance(error, SecretsWantedError):
                again = partial(self.resume, layout, arguments, keep=keep)
                self.secrets_wanted.emit(error.missing, again)
            else:
                self._fail(layout, error)

        self._run(layout, RunCommand.RESUME, call, failed)

    def use_secrets(self, values: Mapping[str, str], *, keep: bool) -> None:
        """Give runs these values from now on; with `keep` the keyring has them, too."""
        self._secrets.update(values)
        if keep:
            self._operations.run(
                "keeping secrets",
                lambda _progress, _cancel: keep_secrets(values, self._logins.home),
                failed=lambda error: self.failed.emit("", f"The secrets were not kept: {error}", ""),
            )

    def profile(self, layout: RunLayout, ranks: Sequence[int] = ()) -> None:
        """Profile ranks; empty: the usual ones."""
        self._run(layout, RunCommand.PROFILE, partial(profile_report, layout, ranks))

    def end_watch(self, layout: RunLayout) -> None:
        """Watch a training no longer that Torchdeck did not start."""

        def call(_ui: Ui) -> str:
            end_watch(layout, ORIGIN)
            return ""

        self._run(layout, RunCommand.END_WATCH, call)

    def attach(self, layout: RunLayout) -> None:
        """Reattach to a run that continues on other machines: prompt for logins and start a controller."""

        def call(ui: Ui) -> str:
            attach(layout, ui, until_followed=True)
            return ""

        self._run(layout, RunCommand.ATTACH, call)

    def ui(self, progress: Callable[[str], None], cancel: Cancel) -> WorkerUi:
        """The front end of a use case in a worker: controllers that it starts are reaped."""
        return WorkerUi(self._logins.asking, progress, cancel, self._carriers.add_controller)

    def clone(self, layout: RunLayout, checkpoint: Path | None = None) -> None:
        """Emit the run's file as it was, to start from `checkpoint` if given."""
        self._operations.run(
            f"reading the configuration of {layout.root.name}",
            lambda _progress, _cancel: clone_text(layout, checkpoint),
            done=lambda found: self.clone_ready.emit(*found),
            failed=lambda error: self.failed.emit(layout.root.name, str(error), page_of(error)),
        )

    def delete(self, runs: Sequence[tuple[str, RunLayout]], *, results: bool = False) -> None:
        """Move runs (name, layout) to the trash; the receiver of `deleted` may restore them.

        Args:
            runs: the runs.
            results: also if a file that their program wrote next to its code is nowhere else.
        """

        def call(
            progress: Callable[[str], None], _cancel: object
        ) -> tuple[Deleted, list[HeldRun], list[tuple[str, str]]]:
            gone, held, errors = [], [], []
            for name, layout in runs:
                progress(f"deleting {name}")
                try:
                    if not results and (why := only_here(layout)):
                        held.append(HeldRun(name, layout, why))
                        continue
                    gone.append((name, layout.root.name, move_to_trash(layout)))
                except Exception as error:  # noqa: BLE001 - said beside the run it is about
                    errors.append((layout.root.name, f"it cannot be deleted: {error}"))
            names, ids, folders = zip(*gone, strict=True) if gone else ((), (), ())
            return Deleted(names, ids, folders), held, errors

        def done(outcome: tuple[Deleted, list[HeldRun], list[tuple[str, str]]]) -> None:
            aside, held, errors = outcome
            if held:
                self.held.emit(held)
            if aside.folders:
                self.deleted.emit(aside)
            for run_id, why in errors:
                self.failed.emit(run_id, why, "")
            self.runs_touched.emit()

        self._operations.run("deleting runs", call, done=done)

    def put_back(self, aside: Deleted) -> None:
        """Undo a deletion."""
        self._operations.run(
            "restoring runs",
            lambda _progress, _cancel: [restore(folder) for folder in aside.folders],
            done=lambda _layouts: self.runs_touched.emit(),
            failed=lambda error: self.failed.emit("", f"a run cannot be restored: {error}", page_of(error)),
        )

    def go_on_deleting(self) -> None:
        """Remove what was in the trash for too long, also on nodes that accept a login without prompting."""

        def call(progress: Callable[[str], None], cancel: Cancel) -> dict[str, tuple[str, ...]]:
            return finish_deletions(self._logins.home, WorkerUi(self._logins.quiet, progress, cancel))

        def done(left: dict[str, tuple[str, ...]]) -> None:
            for run_id, nodes in left.items():
                later = f"`torchdeck runs delete {run_id} --node {' '.join(nodes)}` removes it there"
                self.failed.emit("", f"deleted run {run_id} may be left on {', '.join(nodes)}: {later}", "")

        self._operations.run("removing deleted runs", call, done=done)

    @staticmethod
    def copy(text: str) -> None:
        """Copy `text` to the clipboard."""
        QGuiApplication.clipboard().setText(text)

    @staticmethod
    def open_folder(layout: RunLayout) -> None:
        """Open the run's directory in the desktop's file manager."""
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(layout.root)))

    def close(self) -> None:
        """End the threads; pending requests stay in the run's control folder."""
        self._is_closed = True
        self._carriers.stop(1.0)

    def _run(
        self,
        layout: RunLayout,
        what: RunCommand,
        call: Callable[[Ui], str],
        refused: Callable[[Exception], None] | None = None,
    ) -> None:
        asked = (layout.root.name, what)
        self._logins.ask_again()
        self._asked.add(asked)
        self.under_way_changed.emit()

        def over() -> None:
            self.look_after()
            self._asked.discard(asked)
            self.under_way_changed.emit()
            self.runs_touched.emit()

        def done(said: str) -> None:
            over()
            if said:
                self.reported.emit(layout.root.name, said)

        def failed(error: Exception) -> None:
            over()
            if refused is None:
                self._fail(layout, error)
            else:
                refused(error)

        name = layout.root.name
        operation = self._operations.run(
            f"attaching to {name}" if what == RunCommand.ATTACH else f"asking {name} to {what.words}",
            lambda progress, cancel: call(self.ui(progress, cancel)),
            done=done,
            failed=failed,
        )
        operation.cancelled.connect(over)

    def _fail(self, layout: RunLayout, error: Exception) -> None:
        if isinstance(error, UnknownResumeError):
            self.arguments_wanted.emit(layout, error.program)
        else:
            self.failed.emit(layout.root.name, str(error), page_of(error))

    def look_after(self) -> None:
        """Take over what a worker has started, even if cancelled: carry requests and reap controllers."""
        if not self._is_closed:
            self._carriers.start()

    def _take_carried(self, carried: Carried) -> None:
        for run_id, why in carried.errors:
            self.failed.emit(run_id, why, "")
        self.under_way_changed.emit()
        self.runs_touched.emit()
