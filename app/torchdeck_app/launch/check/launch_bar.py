"""Check and Launch: the bar with the buttons, the panel over it, and the questions before a start."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QMessageBox, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from torchdeck.trust.trusted_entry import Held
from torchdeck.use_cases.check import CheckRequest
from torchdeck.use_cases.start import MissingSecrets
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Operation, Operations
from torchdeck_app.bridge.worker_ui import WorkerUi
from torchdeck_app.launch.check.check_rows import CheckRow, Remedy, not_listed, problem_rows, verdict
from torchdeck_app.launch.check.checks_panel import CheckPanel
from torchdeck_app.launch.check.launching import WAITING, Launching, check_everything
from torchdeck_app.launch.check.queueing import Queueing
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.preview.preview_service import PreviewService
from torchdeck_app.launch.problem_list import ProblemRow
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.dialogs import Choice, ask
from torchdeck_app.widgets.inputs import set_enabled
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.secrets_dialog import SecretsDialog

TRUST_MEANS = (
    "Files in this folder would run as code: the model and its data, the modules they import, the "
    "Python interpreter, a run file that sets environment variables, or packages that uv builds. A "
    "preview runs this code here, and a launch runs it on every rank, with your permissions. Trust "
    "covers the folder and its "
    "subfolders, now and later.\n\nTrust only code that you have read or that comes from someone you "
    "trust. Torchdeck asks again if the folder's owner or mode changes. Settings lists all trusted "
    "folders."
)


class LaunchControl(QWidget):
    """Bar under the preview."""

    run_started = Signal(str)
    queued = Signal(str)
    """Emitted with a sentence about the entry of the queue."""
    key_wanted = Signal(str)
    """Emitted with the key that a check refers to."""
    problems_wanted = Signal()
    """Emitted to show the list of problems, which has the reasons against a launch."""

    def __init__(
        self,
        theme: Theme,
        document: RunDocument,
        service: PreviewService,
        operations: Operations,
        logins: Logins,
        source: Callable[[], str],
        parent: QWidget | None = None,
        *,
        listed: Callable[[], Iterable[ProblemRow]] = tuple,
    ) -> None:
        """Create the bar for `document`; `source` returns its file, `listed` the rows of the problem list."""
        super().__init__(parent)
        self._listed = listed
        self._logins, home = logins, logins.home
        self._document, self._service, self._operations, self._home = document, service, operations, home
        self._checking: Operation[tuple[CheckRow, ...]] | None = None
        self._check_waits = self._measure_waits = False
        self._checked_text: str | None = None
        self.dialog: QMessageBox | None = None
        self.secrets_dialog: SecretsDialog | None = None
        """The question that was asked last."""
        self.launching = Launching(document, service, operations, home, source, self, connector=logins.asking)
        self.queueing = Queueing(document, operations, source, self, connector=logins.asking)
        self.panel = CheckPanel(theme)
        self.wait = WaitLine()
        self.check_button = QPushButton("&Check")
        self.launch_button = QPushButton("La&unch  Ctrl+↵")
        self.launch_button.setProperty("role", "primary")
        bar = QHBoxLayout()
        bar.setContentsMargins(GRID, GRID, GRID, GRID)
        bar.setSpacing(GRID)
        bar.addWidget(self.wait, 1)
        bar.addWidget(self.check_button)
        bar.addWidget(self.launch_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(bar)
        self._connect()

    @property
    def _is_busy(self) -> bool:
        return self.launching.is_busy or self.queueing.is_busy

    def use(self, check: QAction, launch: QAction) -> None:
        """Set the actions of the buttons."""
        for button, action in ((self.check_button, check), (self.launch_button, launch)):
            button.setAccessibleName(action.text().replace("&", ""))
            button.setToolTip(action.toolTip())
            button.clicked.connect(lambda _checked=False, action=action: action.trigger())

    def check(self, *, measure: bool = False) -> None:
        """Check the run for problems, and list all checks; `measure` takes some seconds on every node."""
        if self._checking is not None or self._is_busy:
            return
        checked, missing = self._document.newest, self._check_lacks()
        if missing or checked is None:
            self._check_waits, self._measure_waits = True, measure
            self.wait.wait_for(missing)
            self._show_busy()
            return
        if checked.loaded is None:
            self._refused(problem_rows(checked.problems))
            return
        request, folder = CheckRequest(checked.loaded, measure=measure, home=self._home), checked.folder
        connector = self._logins.asking
        self._logins.ask_again()
        self._checked_text = checked.text
        self.wait.wait_for("checking")
        operation = self._operations.run(
            "checking the run",
            lambda progress, cancel: check_everything(request, folder, WorkerUi(connector, progress, cancel)),
            done=self._show_checks,
            failed=self._check_failed,
        )
        operation.progressed.connect(self._check_progressed)
        operation.cancelled.connect(self._check_over)
        self._checking = operation
        self._show_busy()

    def _check_lacks(self) -> str:
        """Return what a check waits for: the last edit, and the trace, whose result it needs."""
        checked = self._document.newest
        if checked is None or checked.version != self._document.version:
            return WAITING
        return self._service.state.tracing if checked.loaded is not None else ""

    def launch(self) -> None:
        """Start the previewed run."""
        if self.queueing.is_busy:
            return
        self.panel.hide()
        self._check_waits = False
        self._logins.ask_again()
        if self._checking is not None:
            self._checking.cancel()  # a launch includes the check
        self.launching.launch()
        self._show_busy()

    def queue(self) -> None:
        """Add the run to the queue, after its check."""
        if self._is_busy:
            return
        self.panel.hide()
        self._logins.ask_again()
        held = self._service.state.held
        if held is not None and held.can_be_trusted:
            self.ask_trust(held, lambda: self._trust(held.folder), launching=False)
            return
        if self._checking is not None:
            self._checking.cancel()  # adding includes the check
        self._check_waits = False
        self.queueing.add()
        self._show_busy()

    def ask_trust(self, held: Held, go_on: Callable[[], None], *, launching: bool) -> None:
        """Ask whether the code in `held` may run."""
        roles = QMessageBox.ButtonRole
        self.dialog = ask(
            self,
            f"Trust this folder?\n{held.folder}",
            f"{held.what}.\n\n{TRUST_MEANS}",
            (
                Choice("&Trust and launch" if launching else "&Trust", roles.AcceptRole, go_on),
                Choice("&Cancel", roles.RejectRole, self.launching.cancel if launching else lambda: None),
            ),
            default=1,  # an accidental Enter must not let code run
        )

    def document_changed(self) -> None:
        """Discard check results after an edit."""
        if self._checked_text is not None and self._document.text != self._checked_text:
            self._checked_text = None
            self.panel.hide()
            self.wait.say("")

    def _connect(self) -> None:
        self.panel.remedy_wanted.connect(self._remedy)
        self.panel.measure_wanted.connect(lambda: self.check(measure=True))
        self.wait.cancelled.connect(self._cancel)
        self.launching.progressed.connect(self._progressed)
        self.launching.refused.connect(lambda rows: self._refused(rows, what="Launch blocked"))
        self.launching.started.connect(self._started)
        self.launching.trust_wanted.connect(
            lambda held: self.ask_trust(
                held, lambda: self.launching.go_on_trusting(held.folder), launching=True
            )
        )
        self.launching.agreement_wanted.connect(self._ask_agreement)
        self.launching.secrets_wanted.connect(self._ask_secrets)
        self.launching.secrets_not_kept.connect(self.wait.say)
        self.launching.secrets_kept_no_more.connect(self.wait.say)
        self.queueing.progressed.connect(self._progressed)
        self.queueing.refused.connect(lambda rows: self._refused(rows, what="Not queued"))
        self.queueing.added.connect(self._queued)
        self._service.updated.connect(self._something_new)
        self._document.checked.connect(self._something_new)
        self._document.opened.connect(lambda: self.wait.say(""))  # another document was launched

    def _ask_secrets(self, missing: MissingSecrets) -> None:
        dialog = SecretsDialog(
            missing,
            lambda values, keep: self.launching.go_on_with_secrets(values, keep=keep),
            self.launching.cancel,
            self,
        )
        self.secrets_dialog = dialog
        dialog.open()

    def _something_new(self, _news: object) -> None:
        """Continue pending actions after the document was checked or the preview changed."""
        self.launching.preview_updated()
        self.queueing.document_checked()
        if not self._check_waits:
            return
        if missing := self._check_lacks():
            self.wait.wait_for(missing)
            return
        self._check_waits = False
        self._check_over()
        self.check(measure=self._measure_waits)

    def _progressed(self, what: str) -> None:
        self.wait.wait_for(what)
        self._show_busy()

    def _show_busy(self) -> None:
        busy = self._is_busy
        can_check = not busy and self._checking is None and not self._check_waits
        set_enabled(self.launch_button, self, on=not busy)
        set_enabled(self.check_button, self, on=can_check)
        set_enabled(self.panel.measure_button, self.panel, on=can_check)

    def _refused(self, rows: tuple[CheckRow, ...], *, what: str = "") -> None:
        self._checked_text = self._document.text
        count = "1 problem" if len(rows) == 1 else f"{len(rows)} problems"
        self._show_rows(rows, f"{what}: {count}" if what else verdict(rows))
        self._show_busy()

    def _show_rows(self, rows: tuple[CheckRow, ...], title: str, *, can_measure: bool = False) -> None:
        """Show the results under `title`, without those already in the problem list."""
        rest = not_listed(rows, self._listed())
        if rest == rows:
            self.panel.show_rows(rows, title, can_measure=can_measure)
            return
        if rest:
            self.panel.show_rows(rest, f"{title}; the list of problems has {len(rows) - len(rest)}")
        else:
            self.panel.hide()
            self.wait.say(f"{title}, see the list of problems")
        self.problems_wanted.emit()

    def _started(self, run_id: str) -> None:
        self._show_busy()
        self.wait.say(f"Started {run_id}")
        self.run_started.emit(run_id)

    def _queued(self, sentence: str) -> None:
        self._show_busy()
        self.queued.emit(sentence)

    def _ask_agreement(self, changes: tuple[str, ...]) -> None:
        roles = QMessageBox.ButtonRole
        self.dialog = ask(
            self,
            "The plan has changed since the preview. Launch it as it is now?",
            "\n".join(f"• {sentence}" for sentence in changes) or "The plan differs.",
            (
                Choice("&Launch as it is now", roles.AcceptRole, self.launching.go_on_agreeing),
                Choice("&Cancel", roles.RejectRole, self._disagree),
            ),
        )

    def _disagree(self) -> None:
        self.launching.cancel()
        self._service.refresh()

    def _remedy(self, row: CheckRow) -> None:
        match row.remedy:
            case Remedy.GO_TO_KEY:
                self.key_wanted.emit(row.key)
            case Remedy.QUEUE:
                self._document.set_value(("launch", "queue"), value=True)
                self.launch()
            case Remedy.TRUST if (held := self._service.state.held) is not None:
                self.ask_trust(held, lambda: self._trust(held.folder), launching=False)

    def _trust(self, folder: Path) -> None:
        self.panel.hide()  # its content becomes outdated
        self._service.trust(folder)

    def _cancel(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
        elif self._check_waits:
            self._check_waits = False
            self._check_over()
        self.launching.cancel()
        self.queueing.cancel()

    def _check_progressed(self, what: str) -> None:
        if not self._is_busy:
            self.wait.wait_for(f"checking: {what}")

    def _show_checks(self, rows: tuple[CheckRow, ...]) -> None:
        self._check_over()
        if self._checked_text is None:
            self.wait.say("The run file has changed. Check it again.")
        else:
            can_measure = not any(row.status == "failed" for row in rows)
            self._show_rows(rows, verdict(rows), can_measure=can_measure)

    def _check_failed(self, error: Exception) -> None:
        self._check_over()
        self.panel.show_rows((CheckRow("check", "failed", f"{type(error).__name__}: {error}", ""),))

    def _check_over(self) -> None:
        self._checking = None
        if not self._is_busy:
            self.wait.wait_for("")
        self._show_busy()


SLOW = 200
"""Milliseconds after which a pending operation is shown."""


class WaitLine(QWidget):
    """Line that shows a pending operation after a delay, with a Cancel button."""

    cancelled = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text = label(role="secondary")
        self._text.setTextFormat(Qt.TextFormat.PlainText)
        self._text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.cancel_button = QPushButton("Cance&l")
        self.cancel_button.setAccessibleName("Cancel")
        self.cancel_button.setToolTip("Cancel the launch")
        self.cancel_button.clicked.connect(self.cancelled)
        self.cancel_button.hide()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        row.addWidget(self._text, 1)
        row.addWidget(self.cancel_button)
        self._waiting = ""
        self._timer = QTimer(self, singleShot=True, interval=SLOW)
        self._timer.timeout.connect(self._show)
        self._patience = QTimer(self, singleShot=True, interval=1000)
        self._patience.timeout.connect(self.cancel_button.show)

    @property
    def text(self) -> str:
        """Return the current text."""
        return self._text.text()

    def wait_for(self, what: str) -> None:
        """Set the pending operation; empty: none."""
        was, self._waiting = self._waiting, what
        if not what:
            self._timer.stop()
            self._patience.stop()
            self.cancel_button.hide()
            self._text.setText("")
        elif not was:
            self._timer.start()
            self._patience.start()
        elif not self._timer.isActive():
            self._show()

    def say(self, text: str) -> None:
        """Show a message while nothing is pending."""
        if not self._waiting:
            self._text.setText(text)

    def _show(self) -> None:
        self._text.setText(f"{self._waiting[:1].upper()}{self._waiting[1:]} …")
