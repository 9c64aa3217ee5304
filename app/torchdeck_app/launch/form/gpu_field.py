"""Field for the GPUs of a run: typed, or taken from those that are free here and on the nodes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QHBoxLayout, QMenu, QWidget

from torchdeck.config.toml.edit import EditError, remove_value, set_value
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.free_gpus import Offer, changes, offers
from torchdeck.use_cases.nodes.free_gpus import FoundGpus, find_free_gpus
from torchdeck_app.bridge.operations import Operation, Operations
from torchdeck_app.launch.form.base_control import Control, SmallButton
from torchdeck_app.launch.form.form_edits import NamedEdit
from torchdeck_app.launch.form.form_state import FieldState
from torchdeck_app.launch.form.value_controls import WordControl
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import control_text

DEVICES = ("distributed", "devices")
_SEARCHING = "Looking for free GPUs here and on the nodes…"
_NONE = "No GPU is free here or on the nodes of the inventory"


class FreeGpuSearch(QObject):
    """Search for free GPUs off the GUI thread; the last result is available at once."""

    changed = Signal()

    def __init__(
        self, operations: Operations, connector: Callable[[], Connector], parent: QObject | None = None
    ) -> None:
        """Args:
        operations: runs the search.
        connector: connects to nodes without prompting.
        parent: Qt parent.
        """
        super().__init__(parent)
        self._operations, self._connector = operations, connector
        self._running: Operation[FoundGpus] | None = None
        self.found: FoundGpus | None = None
        self.why = ""
        """Why the last search failed; empty if it did not."""

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def start(self) -> None:
        """Search, unless a search is running."""
        if self._running is None:
            self._running = self._operations.run(
                "looking for free GPUs",
                lambda _progress, cancel: find_free_gpus(self._connector(), lambda: cancel.wanted),
                done=self._take,
                failed=self._fail,
            )
            self._running.cancelled.connect(self._over)

    def _take(self, found: FoundGpus) -> None:
        self.found, self.why = found, ""
        self._over()

    def _fail(self, error: Exception) -> None:
        self.why = str(error)
        self._over()

    def _over(self) -> None:
        self._running = None
        self.changed.emit()


class GpuControl(Control):
    """Line with a menu of free GPUs, each entry of which sets nodes and devices."""

    def __init__(
        self, theme: Theme, state: FieldState, search: FreeGpuSearch, parent: QWidget | None = None
    ) -> None:
        super().__init__(state, parent)
        self._search = search
        self.inner = WordControl(state)
        self.inner.asked.connect(self.asked)
        self.inner.refused.connect(self.refused)
        self.menu = QMenu(self)
        self.menu.setToolTipsVisible(True)
        self.choose = SmallButton(theme, "down", "Take free GPUs")
        self.choose.clicked.connect(self._open_menu)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        row.addWidget(self.inner, 1)
        row.addWidget(self.choose)
        self.setFocusProxy(self.inner)
        search.changed.connect(self._fill_open_menu)

    def show_state(self, state: FieldState) -> None:
        super().show_state(state)
        self.inner.show_state(state)

    def set_writable(self, *, writable: bool) -> None:
        self.inner.set_writable(writable=writable)
        self.choose.setEnabled(writable)

    def fill_menu(self) -> None:
        """Fill the menu with the last result of the search."""
        self.menu.clear()
        found = self._search.found
        offered = [] if found is None else offers(found.nodes)
        for model, of_model in groupby(offered, key=lambda offer: offer.model):
            self._say(model)
            for offer in of_model:
                action = self.menu.addAction(control_text(words_of(offer)))
                action.triggered.connect(lambda _checked=False, offer=offer: self.ask(taking(offer)))
        if found is not None and not offered:
            self._say(_NONE)
        for problem in (*(() if found is None else found.problems), self._search.why):
            if problem:
                self._say(problem)
        if self._search.is_running:
            self._say(_SEARCHING)

    def _say(self, text: str) -> None:
        self.menu.addAction(control_text(text)).setEnabled(False)

    def _open_menu(self) -> None:
        self._search.start()
        self.fill_menu()
        self.menu.popup(self.choose.mapToGlobal(self.choose.rect().bottomLeft()))

    def _fill_open_menu(self) -> None:
        if self.menu.isVisible():
            self.fill_menu()


def words_of(offer: Offer) -> str:
    """Return `Take 4 free H100: 2 each on node-a, node-b`, with the indices."""
    where = ", ".join(offer.nodes)
    each = f"{len(offer.devices)} each on " if len(offer.nodes) > 1 else ""
    indices = ", ".join(map(str, offer.devices))
    return f"Take {offer.count} free {offer.model}: {each}{where}\tGPU {indices}"


def taking(offer: Offer) -> NamedEdit:
    """Return the edit that sets nodes and devices to those of `offer`, in one undo step."""

    def change(text: str) -> str:
        for name, value in changes(offer):
            text = _changed(text, tuple(name.split(".")), value)
        return text

    return NamedEdit(f"take {offer.count} {offer.model}", change)


def _changed(text: str, path: tuple[str, ...], value: Any) -> str:
    if value is not None:
        return set_value(text, path, value)
    try:
        return remove_value(text, path)
    except EditError:  # it is not there
        return text
