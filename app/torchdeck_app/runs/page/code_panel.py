"""View of a run's code: its commit, the changes since, and the difference from another run's code."""

from __future__ import annotations

from PySide6.QtCore import QUrl
from PySide6.QtGui import (
    QDesktopServices,
    QGuiApplication,
    QSyntaxHighlighter,
    QTextCharFormat,
    QTextDocument,
)
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget
from shiboken6 import isValid

from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import counted
from torchdeck.runs.run_list import RunEntry
from torchdeck.shown_text import shown, shown_line
from torchdeck.use_cases.code import MOST_LINES, Changes, RunCode, changes, read_code
from torchdeck_app.bridge.operations import Operation, Operations
from torchdeck_app.runs.page.run_choice import RunChoice
from torchdeck_app.runs.run_panel import RunPanel
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.palette import ColourName
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID, label

COMMIT = "commit"
_NONE = "No git commit is on record: the code was in no repository, or git did not answer in time."
_UNTRACKED = 6
"""Maximum number of untracked files named in the sentence."""


class CodeView(RunPanel):
    """Panel that reads the run's code when first shown; it never changes."""

    def __init__(
        self, theme: Theme, operations: Operations, layout: RunLayout, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._operations = operations
        self._layout = layout
        self._code: RunCode | None = None
        self._comparison: Operation[Changes] | None = None
        self._commit_text = ""
        self.choice = RunChoice(layout, "What to compare the code with")
        self.choice.setToolTip("The changes since the git commit, or from the code of another run")
        self.choice.addItem("Changes since its commit", COMMIT)
        self.choice.currentIndexChanged.connect(self._choose)
        self.copy_commit = QPushButton("Copy commit")
        self.copy_commit.setToolTip("Copy the full hash of the commit")
        self.copy_commit.clicked.connect(self._copy_commit)
        self.copy_text = QPushButton("Copy")
        self.copy_text.setAccessibleName("Copy the changes")
        self.copy_text.setToolTip("Copy the changes shown")
        self.copy_text.clicked.connect(self._copy_text)
        self.open_folder = QPushButton("Open folder")
        self.open_folder.setAccessibleName("Open the folder of the code")
        self.open_folder.setToolTip("Show the copy of the code that the run was started with")
        self.open_folder.clicked.connect(self._open_folder)
        self._sentence = label("", role="secondary", wrap=True)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setFont(font(Type.MONO))
        self.text.setAccessibleName("Changes of the code")
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setTabChangesFocus(True)
        self._colours = DiffColours(theme, self.text.document())
        self._lay_out()
        self._say("")

    def entered(self) -> None:
        if self._code is None:
            self._operations.run(
                f"reading the code of {self._layout.root.name}",
                lambda _progress, _cancel: read_code(self._layout),
                done=self._take_code,
                failed=self._take_error,
            )

    def closing(self) -> None:
        self._end_comparison()

    @property
    def message(self) -> str:
        """Return the sentence above the changes."""
        return self._sentence.text()

    def set_runs(self, entries: tuple[RunEntry, ...]) -> None:
        """Offer these runs for comparison."""
        self.choice.set_runs(entries)

    def _lay_out(self) -> None:
        bar = QHBoxLayout()
        bar.setSpacing(GRID)
        bar.addWidget(self.choice)
        bar.addStretch(1)
        for button in (self.open_folder, self.copy_commit, self.copy_text):
            button.setEnabled(False)
            bar.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, GRID)
        column.setSpacing(GRID)
        column.addLayout(bar)
        column.addWidget(self._sentence)
        column.addWidget(self.text, 1)

    def _take_code(self, code: RunCode) -> None:
        self._code = code
        state = code.state
        self._commit_text = "" if state is None else shown(state.diff.rstrip("\n"))
        self.copy_commit.setEnabled(state is not None)
        self.open_folder.setEnabled(code.folder is not None)
        self._choose()

    def _choose(self) -> None:
        self._end_comparison()
        other, wanted = self.choice.chosen_run, self.choice.currentData()
        if self._code is None:
            return
        if other is None:
            self._set_text(self._commit_text)
            self._say(_commit_sentence(self._code))
            return
        self._set_text("")
        self._say("Comparing the code…")
        self._comparison = self._operations.run(
            f"comparing the code with that of {other.root.name}",
            lambda _progress, cancel: changes(other, self._layout, check=cancel.check),
            done=lambda found: self._take_changes(wanted, found),
            failed=lambda error: self._refuse(wanted, error),
        )

    def _end_comparison(self) -> None:
        if self._comparison is not None and isValid(self._comparison):
            self._comparison.cancel()
        self._comparison = None

    def _take_error(self, error: Exception) -> None:
        self._say(f"The code cannot be read: {error}", "error")

    def _take_changes(self, wanted: str, found: Changes) -> None:
        # a lambda may outlive the panel, unlike a connected method
        if not isValid(self) or wanted != self.choice.currentData():
            return
        self._set_text("\n".join(map(shown, found.lines)))
        if found.is_cut:
            self._say(f"The first {MOST_LINES:,} lines; `torchdeck runs diff` prints all.", "warning")
        else:
            self._say("" if found.lines else "Both runs have the same code.")

    def _refuse(self, wanted: str, error: Exception) -> None:
        if isValid(self) and wanted == self.choice.currentData():
            self._say(f"The code cannot be compared: {error}", "error")

    def _set_text(self, text: str) -> None:
        self.text.setPlainText(text)
        self.copy_text.setEnabled(bool(text))

    def _say(self, text: str, role: str = "secondary") -> None:
        self._sentence.setText(text)
        self._sentence.setProperty("role", role)
        self._sentence.style().polish(self._sentence)
        self._sentence.setVisible(bool(text))

    def _copy_commit(self) -> None:
        if self._code is not None and self._code.state is not None:
            QGuiApplication.clipboard().setText(self._code.state.commit)

    def _copy_text(self) -> None:
        QGuiApplication.clipboard().setText(self.text.toPlainText() + "\n")

    def _open_folder(self) -> None:
        if self._code is not None and self._code.folder is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._code.folder)))


class DiffColours(QSyntaxHighlighter):
    """Colours of a unified diff: added and removed lines, and what names a place."""

    def __init__(self, theme: Theme, document: QTextDocument) -> None:
        super().__init__(document)
        self._theme = theme
        theme.changed.connect(self.rehighlight)

    def highlightBlock(self, text: str) -> None:  # noqa: N802 - Qt's name
        colour: ColourName
        if text.startswith(("+++", "---", "@@", "diff ", "index ")):
            colour = "secondary"
        elif text.startswith(("+", "-")):
            colour = "good" if text.startswith("+") else "bad"
        else:
            return
        ink = QTextCharFormat()
        ink.setForeground(self._theme.colour(colour))
        self.setFormat(0, len(text), ink)


def _commit_sentence(code: RunCode) -> str:
    if code.state is None:
        return _NONE
    names = ", ".join(map(shown_line, code.state.untracked[:_UNTRACKED]))
    more = len(code.state.untracked) - _UNTRACKED
    if more > 0:
        names = f"{names} and {counted(more, 'other file')}"
    sentence = shown_line(code.state.sentence)
    return f"{sentence}: {names}." if names else f"{sentence}."
