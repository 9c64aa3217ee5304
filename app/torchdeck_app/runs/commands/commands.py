"""What a person asks of runs: carried out off the GUI thread, its outcome told by signals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication

from torchdeck.agent.processes.detached_process import DetachedProcess
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.node_deletion import NodeDeletion, delete_noted, delete_on_nodes
from torchdeck.launching.node_logins import gather_logins
from torchdeck.launching.requests import write_request
from torchdeck.launching.taking_over import Logins as AskLogins
from torchdeck.launching.taking_over import ensure_controller, resume
from torchdeck.runs.folders.deletion import put_back, remove, remove_forgotten, run_of, set_aside
from torchdeck.runs.folders.node_parts import remote_nodes
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Cancel, Operations
from torchdeck_app.runs.attaching.attach import attach
from torchdeck_app.runs.commands.abilities import ATTACH, RESUME, STOP, STOP_NOW, WORDS
from torchdeck_app.runs.commands.request_carriers import Carried, RequestCarriers
from torchdeck_app.runs.configuration.reading import clone_text

ORIGIN = "window"
_Call = Callable[[Callable[[str], None], Cancel], object]


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
        self._carriers = RequestCarriers(logins.quiet.credentials.to_json, self)
        self._carriers.changed.connect(self._take_carried)

    def under_way(self, run_id: str) -> frozenset[str]:
        """What was asked of a run and not taken yet."""
        return frozenset(what for id_, what in (*self._asked, *self._carriers.under_way) if id_ == run_id)

    def carry_out(self, what: str, layout: RunLayout) -> None:
        """`stop`, `stop_now`, `resume`, `attach` or `clone`."""
        if what in (STOP, STOP_NOW):
            self.stop(layout, now=what == STOP_NOW)
        else:
            {RESUME: self.resume, ATTACH: self.attach, "clone": self.clone}[what](layout)

    def stop(self, layout: RunLayout, *, now: bool = False) -> None:
        """Ask for a stop after the step, with a checkpoint; or, `now`, for the end of every process."""
        kind = STOP_NOW if now else STOP

        def call(progress: Callable[[str], None], cancel: Cancel) -> None:
            started: DetachedProcess | None = None
            if remote_nodes(layout):
                # who carries it on has nobody to ask; and what is asked may be refused, or cancelled: a
                # request that lay there already would be forwarded by whatever controller comes next
                started = ensure_controller(layout, self._ask(layout, progress, cancel))
                self._reap_later(started)
            # from here on it is carried, whatever becomes of this call
            self._carriers.add(layout, write_request(layout, kind, ORIGIN), started)

        self._run(layout, kind, call)

    def resume(self, layout: RunLayout) -> None:
        """Go on from the newest complete checkpoint."""

        self._run(
            layout,
            RESUME,
            lambda progress, cancel: self._reap_later(
                resume(layout, ORIGIN, self._ask(layout, progress, cancel))
            ),
        )

    def attach(self, layout: RunLayout) -> None:
        """Follow a run again that goes on on other machines: ask for what is wanted, start a controller."""
        self._run(
            layout,
            ATTACH,
            lambda progress, cancel: self.follow(
                layout, self._ask(layout, progress, cancel), progress, cancel
            ),
        )

    def follow(
        self, layout: RunLayout, logins: AskLogins, progress: Callable[[str], None], cancel: Cancel
    ) -> None:
        """As `attach`, for a worker that asks by itself; what was started is reaped even once cancelled.

        Raises what `attaching.attach` does, and CancelledError.
        """
        attach(layout, logins, progress, cancel.check, self._reap_later)

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

        def call(progress: Callable[[str], None], _cancel: object) -> list[NodeDeletion]:
            nodes = [remote_nodes(RunLayout(folder)) for folder in aside.folders]
            for folder in aside.folders:
                remove(folder)
            told: list[NodeDeletion] = []
            for name, run_id, where in zip(aside.names, aside.ids, nodes, strict=True):
                progress(f"removing {name} from its nodes" if where else f"removing {name}")
                told += delete_on_nodes(run_id, where, self._logins.quiet)
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

        def call(_progress: object, _cancel: object) -> dict[Path, tuple[str, ...]]:
            removed = remove_forgotten(self._logins.home)
            delete_noted(self._logins.quiet)
            return removed

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

    def _run(self, layout: RunLayout, what: str, call: _Call) -> None:
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
            f"attaching to {name}" if what == ATTACH else f"asking {name} to {WORDS[what]}",
            call,
            done=lambda _nothing: over(),
            failed=failed,
        )
        operation.cancelled.connect(over)

    def _ask(self, layout: RunLayout, progress: Callable[[str], None], cancel: Cancel) -> AskLogins:
        """Asks, in the worker, for what the nodes of a run want."""

        def ask() -> Mapping[str, Any]:
            if not remote_nodes(layout):
                return {}
            progress("connecting to its nodes")
            given = gather_logins(layout, self._logins.asking)
            cancel.check()
            return given

        return ask

    def look_after(self) -> None:
        """See to what a worker has begun, also one that was cancelled: carry requests, reap controllers."""
        if not self._is_closed:
            self._carriers.start()

    def _reap_later(self, controller: DetachedProcess | None) -> None:
        """Have a controller reaped, so that it does not look alive when it has ended; from any thread."""
        if controller is not None:
            self._carriers.add_controller(controller)

    def _take_carried(self, carried: Carried) -> None:
        for run_id, why in carried.errors:
            self.failed.emit(run_id, why)
        self.under_way_changed.emit()
        self.runs_touched.emit()
