"""Placement tab: grid of nodes and devices with their ranks."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QStackedWidget, QToolButton, QVBoxLayout, QWidget

from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.preview import placement_line
from torchdeck.plan.preview.rank_preview import RankPreview, make_rank
from torchdeck_app.bridge.operations import Operation, Operations
from torchdeck_app.launch.preview.placement.grid_cursor import same_spot
from torchdeck_app.launch.preview.placement.grid_layout import STEPS, Spot
from torchdeck_app.launch.preview.placement.grid_legend import Legend, entries
from torchdeck_app.launch.preview.placement.grid_markers import period_of
from torchdeck_app.launch.preview.placement.node_strip import NodeStrip, dragged_name
from torchdeck_app.launch.preview.placement.placement_changes import (
    Change,
    RefusedError,
    moved_node,
    shared_with,
    toggled_device,
    toggled_node,
)
from torchdeck_app.launch.preview.placement.rank_grid import PlacementGrid
from torchdeck_app.launch.preview.placement.run_nodes import NodeChange, RunNodes
from torchdeck_app.launch.preview.placement.selection_facts import (
    COMPUTED,
    SpotDetails,
    node_facts,
    placed_facts,
    rank_facts,
    run_facts,
)
from torchdeck_app.launch.preview.preview_state import PreviewState
from torchdeck_app.launch.preview.preview_tab import wrapped_label
from torchdeck_app.launch.preview.rank_grid_model import RankGridModel
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import control_text, plain_tip
from torchdeck_app.widgets.panel import GRID, EmptyState


class PlacementView(QWidget):
    """View with the grid, its legend, and the selection."""

    change_asked = Signal(object)  # Qt's dicts do not support tuples as keys
    """Emitted with a dict: keys of run.toml, dotted or as paths, to their new values."""

    def __init__(
        self,
        theme: Theme,
        operations: Operations,
        parent: QWidget | None = None,
        *,
        run_nodes: RunNodes | None = None,
    ) -> None:
        """Args:
        theme: theme of the window.
        operations: runs slow work.
        parent: Qt parent.
        run_nodes: compares the node inventory with the document; without it nodes cannot be added or
            removed here.
        """
        super().__init__(parent)
        self._run_nodes = run_nodes
        self._theme = theme
        self._operations = operations
        self._preview: Preview | None = None
        self._model: RankGridModel | None = None
        self._asking: Operation[RankPreview] | None = None
        self.board = PlacementGrid(theme)
        self.strip = NodeStrip(theme)
        self.menu: QMenu | None = None
        """The menu opened last over the grid."""
        self.legend = Legend(theme)
        self.details = SpotDetails()
        self.told = wrapped_label(role="warning")
        self._stack = QStackedWidget()
        self._stack.addWidget(
            EmptyState(theme, "nodes", "Placement", "Every node with its devices, and the ranks on them.")
        )
        self._stack.addWidget(self._filled())
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._stack)
        self.board.selected.connect(self._show_selected)
        self.board.toggle_asked.connect(self._toggle)
        self.board.move_asked.connect(self._move)
        self.board.zoomed.connect(self._explain)
        theme.changed.connect(self._explain)
        self.details.switch_pressed.connect(self._toggle_selected)
        if run_nodes is not None:
            self._offer(run_nodes)

    def show_state(self, state: PreviewState) -> None:
        """Show the placement of its preview's ranks."""
        self._stack.setCurrentIndex(0 if state.preview is None else 1)
        if state.preview is None or state.preview is self._preview:
            return
        self._preview = state.preview
        self._model = state.board
        if state.board is not None and state.board is not self.board.model:
            self.board.show_model(state.board)
        elif self.board.marks.selected is not None:
            self._show_selected(self.board.marks.selected)
        self._say("")
        self._explain()
        if self.board.marks.selected is None:
            self._show_run()

    def _filled(self) -> QWidget:
        self._line = QStackedWidget()
        self._line.addWidget(self.legend)
        self._line.addWidget(self.told)
        self._line.setFixedHeight(self.legend.height())
        bar = QHBoxLayout()
        bar.addWidget(self._line, 1)
        for text, name, tip, pressed in (
            ("−", "Zoom out", "Zoom out (Ctrl+−, Ctrl+wheel)", lambda: self.board.zoom(-1)),
            ("+", "Zoom in", "Zoom in (Ctrl++, Ctrl+wheel)", lambda: self.board.zoom(1)),
            ("Fit", "Fit", "Fit to window (Ctrl+0)", self.board.fit),
        ):
            bar.addWidget(_button(text, name, tip, pressed))
        filled = QWidget()
        layout = QVBoxLayout(filled)
        layout.setContentsMargins(0, GRID // 2, 0, 0)
        layout.setSpacing(GRID // 2)
        layout.addWidget(self.strip)
        layout.addWidget(self.board, 1)
        layout.addLayout(bar)
        layout.addWidget(self.details)
        return filled

    def _offer(self, run_nodes: RunNodes) -> None:
        """Enable adding nodes of the inventory and removing nodes of the run."""
        self.board.can_remove = True
        self.board.remove_asked.connect(self._remove_at)
        self.board.leaving.connect(self._tell_leaving)
        self.board.menu_asked.connect(self._open_menu)
        InventoryDrop(self.board).dropped.connect(self._add)
        self.strip.add_asked.connect(self._add)
        self.strip.remove_asked.connect(self._remove)
        run_nodes.changed.connect(lambda: self.strip.show_items(run_nodes.items))
        self.strip.show_items(run_nodes.items)

    def _explain(self) -> None:
        if self._model is not None:
            detail = STEPS[self.board.step].detail
            period = period_of(self._model, self.board.layout_now) if self._model.is_grouped else 1
            self.legend.show_entries(entries(self._model, self._theme, detail, period))

    def _show_selected(self, spot: Spot | None) -> None:
        self._say("")
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None
        model, preview = self._model, self._preview
        if spot is None or model is None or preview is None:
            self._show_run()
            return
        node = model.nodes[spot.node]
        if spot.slot is None:
            self.details.show_spot(node.name, node_facts(node), can_switch=True, is_on=node.is_on)
            return
        slot = node.slots[spot.slot]
        has_device, is_on = slot.index is not None, slot.rank is not None
        if slot.rank is None:
            self.details.show_spot(f"{slot.device} of {node.name}", (), can_switch=has_device, is_on=is_on)
            return
        title = f"rank {slot.rank}, {slot.device} of {node.name}"
        facts = placed_facts(model, slot)
        if title == self.details.title:  # computed facts stay until they are computed again
            facts = (*facts[:COMPUTED], *self.details.facts[COMPUTED:])
        self.details.show_spot(title, facts, can_switch=has_device, is_on=is_on)
        number = slot.rank
        self._asking = self._operations.run(
            f"looking at rank {number}",
            lambda _progress, _cancel: make_rank(preview, number),
            done=lambda rank: self.details.show_facts(rank_facts(model, slot, rank)),
            failed=lambda error: self._say(str(error)),
        )

    def _show_run(self) -> None:
        if self._model is not None and self._preview is not None:
            self.details.show_run(placement_line(self._preview), run_facts(self._model))

    def _toggle_selected(self) -> None:
        if self.board.marks.selected is not None:
            self._toggle(self.board.marks.selected)

    def _toggle(self, spot: Spot) -> None:
        model, preview = self._model, self._preview
        if model is None or preview is None:
            return
        if spot.slot is None:
            self._ask(lambda: toggled_node(model, preview.config, spot.node))
            return
        slot = spot.slot
        if self._ask(lambda: toggled_device(model, preview.config, spot.node, slot)):
            others = shared_with(model, preview.config, spot.node)
            if others:
                self._say(f"{others:,} other node{'s' if others > 1 else ''} described with it changed too")

    def _move(self, at: int, before: int) -> None:
        model, preview = self._model, self._preview
        if model is not None and preview is not None:
            self._ask(lambda: moved_node(model, preview.config, at, before))

    def _add(self, name: str, before: str = "") -> None:
        if (nodes := self._run_nodes) is not None:
            self._ask_noted(lambda: nodes.added(name, before))

    def _remove(self, name: str) -> None:
        if (nodes := self._run_nodes) is not None:
            self._ask_noted(lambda: nodes.removed(name))

    def _remove_at(self, node: int) -> None:
        if self._model is not None and node < len(self._model.nodes):
            self._remove(self._model.nodes[node].name)

    def _tell_leaving(self, leaves: bool) -> None:  # noqa: FBT001 - what the signal brings
        self._say("Drop here to remove the node from the run" if leaves else "")

    def _open_menu(self, spot: Spot, where: QPoint) -> None:
        if (model := self._model) is None:
            return
        node = model.nodes[spot.node]
        self.menu = menu = QMenu(self)
        menu.aboutToHide.connect(menu.deleteLater)
        name = node.name.replace("&", "&&")
        remove = menu.addAction(f"&Take {control_text(name)} out of the run", lambda: self._remove(node.name))
        remove.setEnabled(node.is_on)
        menu.addAction(self.details.switch.text(), lambda: self._toggle_what_was(spot, model)).setEnabled(
            spot.slot is None or node.slots[spot.slot].index is not None
        )
        menu.popup(where)

    def _toggle_what_was(self, spot: Spot, seen: RankGridModel) -> None:
        """Toggle the item at `spot` as of opening the menu: the grid may have changed since."""
        now = None if self._model is None else same_spot(seen, spot, self._model)
        if now is not None and now.slot == spot.slot:
            self._toggle(now)

    def _ask_noted(self, change: Callable[[], NodeChange]) -> None:
        """Same as `_ask`, and show the note on unexpected effects."""
        notes: list[str] = []

        def asked() -> Change:
            made = change()
            notes.append(made.note)
            return made.change

        if self._ask(asked):
            self._say("".join(notes))

    def _ask(self, change: Callable[[], Change]) -> bool:
        """Request the result of `change`, or show why it is not possible."""
        try:
            asked = change()
        except RefusedError as error:
            self._say(str(error))
            return False
        self._say("")
        if asked:
            self.change_asked.emit(asked)
        return bool(asked)

    def _say(self, text: str) -> None:
        self.told.setText(text)
        self._line.setCurrentWidget(self.told if text else self.legend)
        self.told.setToolTip(plain_tip(text))


def _button(text: str, name: str, tip: str, pressed: Callable[[], None]) -> QToolButton:
    made = QToolButton()
    made.setText(text)
    made.setAccessibleName(name)
    made.setToolTip(tip)
    made.clicked.connect(pressed)
    return made


class InventoryDrop(QObject):
    """Drop handler for inventory items only: files belong to the window, and nodes of the grid move without
    Qt's dragging.
    """

    dropped = Signal(str, str)
    """Emitted with a node or group name, and the grid node before which to insert it; empty: at the end."""

    def __init__(self, board: PlacementGrid) -> None:
        super().__init__(board)
        self._board = board
        board.viewport().setAcceptDrops(True)
        board.viewport().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() is QEvent.Type.DragLeave:
            self._board.mark_drop(None)
            return True
        if not isinstance(event, QDropEvent):  # enter and move events are subclasses
            return super().eventFilter(watched, event)
        name = dragged_name(event.mimeData())
        if not name:
            event.ignore()
            return True
        event.setDropAction(Qt.DropAction.CopyAction)
        event.accept()
        before = self._board.mark_drop(event.position())
        if event.type() is QEvent.Type.Drop:
            self._board.mark_drop(None)
            self.dropped.emit(name, before)
        return True
