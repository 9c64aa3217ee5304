"""Ending a process on a GPU: the question first, then the work in a worker."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QMessageBox, QWidget

from torchdeck.nodes.gpus.gpu_words import LOSS, process_details, process_words
from torchdeck.use_cases.nodes.gpus import EndRequest, end_process, end_words
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.nodes.gpus.gpu_looks import node_name
from torchdeck_app.widgets.dialogs import Choice, ask

_RUN = (
    "It is a process of a Torchdeck run. If the run is stopped, it finishes its step, saves a checkpoint if "
    "it can, and ends all its ranks together."
)


class ProcessEnding:
    """Ends processes that use GPUs.

    Args:
        owner: widget over which the question appears.
        operations: runs the work.
        logins: connects to nodes.
        reported: called with a sentence about the result.
        run_asked: called with the id of a run to open.
        stop_asked: called with the id of a run to stop.
        may_stop: tells whether a run is active in this home, by its id.
    """

    def __init__(
        self,
        owner: QWidget,
        operations: Operations,
        logins: Logins,
        *,
        reported: Callable[[str], None],
        run_asked: Callable[[str], None],
        stop_asked: Callable[[str], None],
        may_stop: Callable[[str], bool],
    ) -> None:
        self._owner, self._operations, self._logins = owner, operations, logins
        self._reported, self._run_asked = reported, run_asked
        self._stop_asked, self._may_stop = stop_asked, may_stop
        self.dialog: QMessageBox | None = None
        """The question that was asked last."""

    def ask(self, request: EndRequest) -> None:
        """Ask whether to end this process; for one of a run, offer to stop or open the run instead."""
        roles = QMessageBox.ButtonRole
        process, node = request.process, node_name(request.node)
        cancel = Choice("Cancel", roles.RejectRole, lambda: None)
        if process.run_id:
            text = f"Stop the run of process {process.pid} instead?"
            go = Choice("Open run", roles.AcceptRole, lambda: self._run_asked(process.run_id))
            stop = Choice("Stop run", roles.DestructiveRole, lambda: self._stop(process.run_id))
            choices = (stop, go, cancel) if self._may_stop(process.run_id) else (go, cancel)
            self.dialog = ask(
                self._owner,
                text,
                f"{process_words(process, node)}\nRun: {process.run_id}\n\n{_RUN}",
                choices,
                default=len(choices) - 2,
            )
            return
        self.dialog = ask(
            self._owner,
            f"End process {process.pid} of {process.user} on {node}?",
            f"{process_details(process)}\n\n{LOSS}",
            (Choice("End process", roles.DestructiveRole, lambda: self._end(request)), cancel),
            default=1,
        )

    def _stop(self, run_id: str) -> None:
        self._reported(f"Stopping run {run_id}: its page shows the progress.")
        self._stop_asked(run_id)

    def _end(self, request: EndRequest) -> None:
        what = f"process {request.process.pid} on {node_name(request.node)}"
        self._reported(f"Ending {what} …")
        self._operations.run(
            f"ending {what}",
            lambda _progress, _cancel: end_process(request, self._logins.asking),
            done=lambda end: self._reported(end_words(request._replace(node=node_name(request.node)), end)),
            failed=lambda error: self._reported(f"Did not end {what}: {error}"),
        )
