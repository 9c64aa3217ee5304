"""View of all GPUs: the grid, and the page of the one that was opened."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.nodes.gpus.gpu_now import GpuNow, NodeGpus, RunHold, gpus_of
from torchdeck.nodes.gpus.history import GpuHistories
from torchdeck.use_cases.nodes.gpus import gpus_of_node, without_twins
from torchdeck.use_cases.nodes.monitor import NodeNow
from torchdeck_app.nodes.gpus.gpu_grid import GpuGrid
from torchdeck_app.nodes.gpus.gpu_model import GpuModel
from torchdeck_app.nodes.gpus.gpu_page import GpuPage
from torchdeck_app.theme.theme import Theme

_SOON = 100
"""Milliseconds in which the reports of several nodes are shown together."""


class GpusView(QStackedWidget):
    """GPUs of nodes and of this machine, as far as they were reported."""

    run_asked = Signal(str)
    end_asked = Signal(object)
    """Emitted with an EndRequest, to be confirmed."""
    add_asked = Signal()

    def __init__(
        self, theme: Theme, runs: Callable[[], Mapping[str, RunHold]], parent: QWidget | None = None
    ) -> None:
        """Args:
        theme: theme of the window.
        runs: returns the known facts of active runs by their ids.
        parent: Qt parent.
        """
        super().__init__(parent)
        self._runs = runs
        self._names: tuple[str, ...] = ()
        self._nodes: dict[str, NodeNow] = {}
        self._here: NodeGpus | None = None
        self.histories = GpuHistories()
        self.model = GpuModel(self.histories, self)
        self.grid = GpuGrid(theme, self.model)
        self.page = GpuPage(theme)
        self.addWidget(self.grid)
        self.addWidget(self.page)
        self.grid.opened.connect(self.open_gpu)
        self.grid.add_asked.connect(self.add_asked)
        self.page.closed.connect(self.close_gpu)
        self.page.run_asked.connect(self.run_asked)
        self.page.end_asked.connect(self.end_asked)
        self._clock = QTimer(self)
        self._clock.setSingleShot(True)
        self._clock.setInterval(_SOON)
        self._clock.timeout.connect(self.show_now)

    def show_names(self, names: Collection[str]) -> None:
        """Show only these nodes from now on, in this order."""
        self._names = tuple(names)
        self._nodes = {name: now for name, now in self._nodes.items() if name in names}
        self.histories.keep({*names, LOCALHOST})
        self._clock.start()

    def show_nodes(self, reports: Sequence[NodeNow]) -> None:
        """Record what nodes have reported, and show it soon."""
        for now in reports:
            self._nodes[now.node] = now
            self.histories.add(gpus_of_node(now, {}))
        self._clock.start()

    def show_here(self, here: NodeGpus) -> None:
        """Record what this machine does, and show it soon."""
        self._here = here
        self.histories.add(gpus_of(here, {}))
        self._clock.start()

    def open_gpu(self, key: tuple[str, str]) -> None:
        """Show the page of a GPU."""
        row = self.model.row_of(key)
        if row is None:
            return
        self.page.show_gpu(self.model.gpu(row), self.model.history(row), self.model.now)
        self.setCurrentWidget(self.page)
        self.page.back.setFocus()

    def close_gpu(self) -> None:
        """Show the grid."""
        self.setCurrentWidget(self.grid)
        self.grid.view.setFocus()

    def show_now(self) -> None:
        """Show the latest reports now."""
        runs, now = self._runs(), time.time()
        found: list[GpuNow] = []
        for name in self._names:
            if name in self._nodes:
                found += gpus_of_node(self._nodes[name], runs)
        if self._here is not None:
            found += gpus_of(self._here, runs)
        waiting = sum(name not in self._nodes or self._is_waiting(name) for name in self._names)
        self.grid.show_gpus(without_twins(found), now, waiting)
        if self.currentWidget() is self.page and self.page.key is not None:
            row = self.model.row_of(self.page.key)
            if row is None:  # its node was removed
                self.close_gpu()
            else:
                self.page.show_gpu(self.model.gpu(row), self.model.history(row), now)

    def _is_waiting(self, name: str) -> bool:
        now = self._nodes[name]
        return now.facts is None and not now.is_lost
