"""Fields of the settings that choose the user's editor."""

from __future__ import annotations

from PySide6.QtWidgets import QComboBox, QFormLayout, QLabel, QLineEdit, QVBoxLayout, QWidget

from torchdeck.use_cases.opening.editor_choice import EditorKind
from torchdeck_app.settings.user_settings import EDITORS, Settings, SettingsStore
from torchdeck_app.widgets.panel import GRID, label

_HINT = (
    "Opens lines of tracebacks and logs. Files of other nodes are opened by VS Code, with its Remote-SSH. "
    "In a command or URL, {file}, {line} and {column} stand for the place."
)


class EditorFields(QWidget):
    """Choice of an editor, and the command of a custom one; each change is kept at once."""

    def __init__(self, store: SettingsStore, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.kind = QComboBox()
        self.kind.setAccessibleName("Editor")
        self.kind.setToolTip("The program that opens lines of tracebacks and logs")
        for kind, text in EDITORS.items():
            self.kind.addItem(text, kind.value)
        self.kind.activated.connect(lambda _index: store.change(editor=EditorKind(self.kind.currentData())))
        self.command = QLineEdit()
        self.command.setAccessibleName("Command of the editor")
        self.command.setPlaceholderText("subl {file}:{line}:{column}")
        self.command.setToolTip("Started without a shell; without {file}, the path is its last argument")
        self.command.textChanged.connect(lambda text: store.change(editor_command=text))
        form = QFormLayout()
        for text, field in (("&Editor", self.kind), ("Co&mmand", self.command)):
            caption = QLabel(text)
            caption.setBuddy(field)
            form.addRow(caption, field)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID)
        column.addLayout(form)
        hint = label(_HINT, role="secondary", wrap=True)
        column.addWidget(hint)

    def show_settings(self, settings: Settings) -> None:
        """Show these settings; the command can be edited for a custom editor."""
        self.kind.setCurrentIndex(self.kind.findData(settings.editor.value))
        if self.command.text() != settings.editor_command:
            self.command.setText(settings.editor_command)
        self.command.setEnabled(settings.editor is EditorKind.CUSTOM)
