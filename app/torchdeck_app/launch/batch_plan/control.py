"""Leads from a batch plan that is missing, or no good any more, to one that is built."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from torchdeck.config.problems import Problem
from torchdeck.config.schema import RunConfig
from torchdeck.launching.batch_plan_build import (
    BATCH_PLAN,
    BuildError,
    PlanOptions,
    build_in_process,
    can_be_built,
    usual_options,
)
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.batch_plan.dialog import BatchPlanDialog
from torchdeck_app.launch.document.checked import CheckedDocument
from torchdeck_app.launch.files.notice import Answer, Notice

TOPIC = "batch plan"


class BatchPlanControl(QObject):
    """Says in the notice that the plan is to be built, and builds it when that is answered."""

    built = Signal()

    def __init__(self, operations: Operations, notice: Notice, window: QWidget) -> None:
        super().__init__(window)
        self._operations, self._notice, self._window = operations, notice, window
        self._said = ""
        self.dialog: BatchPlanDialog | None = None
        """The one that was opened last."""

    def begin_anew(self) -> None:
        """Another document: what was said of the last one is void."""
        self._said = ""

    def show_problems(self, checked: CheckedDocument | None, planned: tuple[Problem, ...]) -> None:
        """Why no plan can be made of a document; of the batch plan's part is told, once for each reason."""
        config = None if checked is None or checked.loaded is None else checked.loaded.config
        wrong = next((problem.wrong for problem in planned if problem.path == BATCH_PLAN), "")
        if checked is None or config is None or not wrong or not can_be_built(config):
            self._said = ""
            self._notice.clear(TOPIC)
        elif wrong != self._said:
            self._said = wrong
            run_file = "" if checked.path is None else str(checked.path)
            answer = Answer("&Build it …", lambda: self._ask(config, run_file))
            text = f"This run needs a batch plan before it can start: {wrong}"
            self._notice.say(text, "warning", (answer,), topic=TOPIC)

    def _ask(self, config: RunConfig, run_file: str) -> None:
        folder = str(config.training.batch_plan)
        dialog = BatchPlanDialog(folder, run_file, usual_options(config), self._window)
        dialog.build_asked.connect(lambda options: self._build(dialog, config, options))
        self.dialog = dialog
        dialog.open()

    def _build(self, dialog: BatchPlanDialog, config: RunConfig, options: PlanOptions) -> None:
        operation = self._operations.run(
            "building the batch plan",
            lambda progress, _cancel: build_in_process(config, options, progress),
            done=lambda _none: self._built(dialog),
            failed=lambda error: dialog.show_error(_sentence(error)),
        )
        operation.progressed.connect(dialog.show_progress)
        dialog.rejected.connect(operation.cancel)

    def _built(self, dialog: BatchPlanDialog) -> None:
        dialog.accept()
        self.built.emit()


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, (BuildError, OSError)) else repr(error)
