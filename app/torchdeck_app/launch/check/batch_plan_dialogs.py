"""Guides the user from a missing or outdated batch plan to a new one."""

from __future__ import annotations

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from torchdeck.config.problems import Problem
from torchdeck.config.schema import RunConfig
from torchdeck.contract.refusal import Refusal
from torchdeck.use_cases.batch_plans.in_process import (
    BATCH_PLAN,
    PlanOptions,
    build_in_process,
    by_hand,
    can_be_built,
    usual_options,
)
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.document.checked_text import CheckedDocument
from torchdeck_app.launch.files.notice import Answer, Notice
from torchdeck_app.theme.fonts import Type
from torchdeck_app.widgets.inputs import QuietSpinBox
from torchdeck_app.widgets.panel import GRID, label

TOPIC = "batch plan"


class BatchPlanControl(QObject):
    """Controller that offers to build the plan in the notice, and builds it on request."""

    built = Signal()

    def __init__(self, operations: Operations, notice: Notice, window: QWidget) -> None:
        super().__init__(window)
        self._operations, self._notice, self._window = operations, notice, window
        self._said = ""
        self.dialog: BatchPlanDialog | None = None
        """The one that was opened last."""

    def reset(self) -> None:
        """Reset for another document."""
        self._said = ""

    def show_problems(self, checked: CheckedDocument | None, planned: tuple[Problem, ...]) -> None:
        """Report problems of a document that concern the batch plan, once for each reason."""
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
    return str(error) if isinstance(error, Refusal | OSError) else repr(error)


_ABOUT = (
    "This run trains by a batch plan: all microbatches are planned before the start, with samples of "
    "similar length together. It is built from the run's own training data."
)


class BatchPlanDialog(QDialog):
    """Window-modal dialog that builds nothing itself. Cancel aborts the operation and closes the dialog."""

    build_asked = Signal(object)
    """Emitted with PlanOptions."""

    def __init__(self, folder: str, run_file: str, usual: PlanOptions, parent: QWidget | None = None) -> None:
        """Args:
        folder: where the plan will be written.
        run_file: path for the equivalent command; empty if the run is in no file.
        usual: default options.
        parent: Qt parent.
        """
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Build the batch plan")
        self.setMinimumWidth(520)
        self._run_file = run_file
        self.budget = QuietSpinBox()
        self.budget.setRange(1, 1 << 30)
        self.budget.setSingleStep(1024)
        self.budget.setValue(usual.token_budget)
        self.budget.setGroupSeparatorShown(True)
        self.budget.setSuffix(" tokens")
        self.budget.setAccessibleName("Maximum tokens per microbatch")
        self.budget.setToolTip(
            "Maximum tokens per microbatch, padding included; it determines the memory needed"
        )
        self.pack = QCheckBox("&Pack several samples into one row")
        self.pack.setChecked(usual.pack)
        self.pack.setToolTip("Less padding; samples in one row do not attend to each other")
        self._command = self._line(Type.MONO, "secondary")
        self._told = self._line(Type.BODY, "secondary")
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.build_button = self.buttons.addButton("&Build", QDialogButtonBox.ButtonRole.ActionRole)
        self.build_button.setProperty("role", "primary")
        self.build_button.setDefault(True)
        self.build_button.clicked.connect(self._ask)
        self.buttons.rejected.connect(self.reject)
        self.budget.valueChanged.connect(self._show_command)
        self.pack.toggled.connect(self._show_command)
        self._lay_out(folder)
        self._show_command()

    @property
    def message(self) -> str:
        """Return the progress, or why it was not built."""
        return self._told.text()

    def show_progress(self, what: str) -> None:
        """Show the progress."""
        self._tell(f"{what[:1].upper()}{what[1:]} …", "secondary", building=True)

    def show_error(self, why: str) -> None:
        """Show why it was not built."""
        self._tell(f"✕ The batch plan was not built: {why}", "error", building=False)

    def _lay_out(self, folder: str) -> None:
        where = self._line(Type.MONO)
        where.setText(folder)
        form = QFormLayout()
        form.setHorizontalSpacing(2 * GRID)
        form.setVerticalSpacing(GRID)
        form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft)
        form.addRow("Folder", where)
        form.addRow("&Microbatch", self.budget)
        form.addRow("", self.pack)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        layout.setSpacing(2 * GRID)
        layout.addWidget(label(_ABOUT, wrap=True))
        layout.addLayout(form)
        layout.addWidget(label("An existing batch plan is replaced.", role="secondary"))
        if self._run_file:
            by_hand_too = QVBoxLayout()
            by_hand_too.setSpacing(4)
            by_hand_too.addWidget(label("On the command line:", role="secondary"))
            by_hand_too.addWidget(self._command)
            layout.addLayout(by_hand_too)
        layout.addWidget(self._told)
        layout.addWidget(self.buttons)

    @staticmethod
    def _line(kind: Type, role: str = "") -> QLabel:
        made = label(kind=kind, role=role, wrap=True)
        made.setTextFormat(Qt.TextFormat.PlainText)
        made.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        made.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        return made

    def _options(self) -> PlanOptions:
        return PlanOptions(self.budget.value(), self.pack.isChecked())

    def _show_command(self) -> None:
        self._command.setText(by_hand(self._run_file, self._options()))

    def _ask(self) -> None:
        self.show_progress("reading the data")
        self.build_asked.emit(self._options())

    def _tell(self, text: str, role: str, *, building: bool) -> None:
        self._told.setText(text)
        if self._told.property("role") != role:
            self._told.setProperty("role", role)
            self._told.style().polish(self._told)
        for control in (self.budget, self.pack, self.build_button):
            control.setEnabled(not building)
