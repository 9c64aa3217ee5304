"""The nodes of a run: a line, and a menu of what the node book has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QWidget

from torchdeck_app.launch.form.controls.line import LineControl
from torchdeck_app.launch.form.controls.small_button import SmallButton
from torchdeck_app.launch.form.states import FieldState
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.plain_label import control_text

NODES = ("distributed", "nodes")
_NONE = "The node book has no nodes: add them in Nodes"


class NodesControl(LineControl):
    """What is chosen in the menu is added to the list, or taken out of it."""

    def __init__(
        self,
        theme: Theme,
        state: FieldState,
        names: Callable[[], Sequence[str]],
        parent: QWidget | None = None,
    ) -> None:
        """
        Args:
            theme: of the window.
            state: of the field.
            names: gives what may be chosen: nodes, groups, tags.
            parent: Qt's owner.
        """
        super().__init__(state, parent)
        self.choose = SmallButton(theme, "nodes", "Choose from the node book")
        self._names = names
        self.menu = QMenu(self)
        self.menu.triggered.connect(self._toggle_action)
        self.choose.clicked.connect(self._open_menu)
        self._row.addWidget(self.choose)

    @property
    def chosen(self) -> list[str]:
        """The names that stand in the file; none where a number or range of nodes does."""
        value = self.state.value
        return [str(name) for name in value] if isinstance(value, (list, tuple)) else []

    def set_writable(self, *, writable: bool) -> None:
        super().set_writable(writable=writable)
        self.choose.setEnabled(writable)

    def fill_menu(self) -> None:
        """Put what the book has now into the menu."""
        self.menu.clear()
        names = self._names()
        for name in names:
            action = self.menu.addAction(control_text(name))
            action.setCheckable(True)
            action.setChecked(name in self.chosen)
        if not names:
            self.menu.addAction(_NONE).setEnabled(False)

    def _open_menu(self) -> None:
        self.fill_menu()
        self.menu.popup(self.choose.mapToGlobal(self.choose.rect().bottomLeft()))

    def _toggle_action(self, action: QAction) -> None:
        self._toggle(action.text(), is_on=action.isChecked())

    def _toggle(self, name: str, *, is_on: bool) -> None:
        # a run on nodes of the book is seldom one on this machine too, which stands there by default
        before = self.chosen if self.state.own else []
        names = [other for other in before if other != name] + ([name] if is_on else [])
        if names:
            self.ask_value(names)
        else:
            self.ask_reset()
