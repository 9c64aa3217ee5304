"""Places of the window by themselves, for tests of what is around them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLineEdit, QVBoxLayout

from torchdeck.use_cases.opening.editor_choice import Editor
from torchdeck_app.widgets.page import Page
from torchdeck_app.window.page_stack import PageEntry


class FakePage(Page):
    """Notes what is done to it; its state is the text in its field."""

    run_started = Signal(str)
    clone_asked = Signal(str, str)
    launch_asked = Signal()
    run_asked = Signal(str)
    stop_asked = Signal(str)

    run_in_sight = ""
    """As the Runs place: the id of the run whose page is shown."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.done: list[Any] = []
        self.field = QLineEdit()
        self.field.setAccessibleName(f"Field of {name}")
        QVBoxLayout(self).addWidget(self.field)
        self.check = QAction("&Check", self)
        self.check.setShortcut("Ctrl+Shift+C")
        self.check.triggered.connect(lambda: self.done.append("check"))
        self.undo = QAction("Undo", self)
        self.undo.setShortcut("Ctrl+Z")
        self.undo.setData("Edit")
        self.offered: list[QAction] = [self.check, self.undo]

    def actions_offered(self) -> Sequence[QAction]:
        return self.offered

    def entered(self) -> None:
        self.done.append("entered")

    def left(self) -> None:
        self.done.append("left")

    def closing(self) -> None:
        self.done.append("closing")

    def save_state(self) -> dict[str, Any]:
        return {"text": self.field.text()}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        self.field.setText(str(state.get("text", "")))

    def open_path(self, path: Path) -> None:
        self.done.append(path)

    def stop_run(self, run_id: str) -> None:
        self.done.append(f"stop {run_id}")

    def use_editor(self, editor: Callable[[], Editor]) -> None:
        """As the Runs place."""

    def open_text(self, text: str, path: Path | None, name: str) -> None:
        self.done.append((text, path, name))

    def open_run(self, run_id: str) -> None:
        self.done.append(run_id)


def fake_entries() -> tuple[PageEntry, ...]:
    """All pages of the window."""
    return tuple(
        PageEntry(name, name.lower(), (), lambda name=name: FakePage(name))  # type: ignore[misc]
        for name in ("Launch", "Runs", "Nodes", "Queue")
    )
