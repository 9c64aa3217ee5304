"""List model of all GPUs, in the order of their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from torchdeck.nodes.gpus.gpu_now import GpuNow
from torchdeck.nodes.gpus.gpu_words import holder_words, state_words, until_of, until_words, user_words
from torchdeck.nodes.gpus.history import GpuHistories, GpuHistory
from torchdeck.shown_text import shown
from torchdeck_app.nodes.gpus.gpu_looks import title_of
from torchdeck_app.widgets.labels import plain_tip

Index = QModelIndex | QPersistentModelIndex


class GpuModel(QAbstractListModel):
    """GPUs with their histories; rows stay in place while the same GPUs are reported."""

    def __init__(self, histories: GpuHistories, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._histories = histories
        self._gpus: tuple[GpuNow, ...] = ()
        self._now = 0.0

    @property
    def gpus(self) -> tuple[GpuNow, ...]:
        """Return all GPUs."""
        return self._gpus

    @property
    def now(self) -> float:
        """Return the time of the last update in seconds since 1970."""
        return self._now

    def show_gpus(self, gpus: Sequence[GpuNow], now: float) -> bool:
        """Show these; return whether other GPUs are shown than before."""
        before, self._now = self._gpus, now
        if [gpu.key for gpu in gpus] != [gpu.key for gpu in before]:
            self.beginResetModel()
            self._gpus = tuple(gpus)
            self.endResetModel()
            return True
        self._gpus = tuple(gpus)
        for row, (old, new) in enumerate(zip(before, gpus, strict=True)):
            if old != new:
                self.dataChanged.emit(self.index(row), self.index(row))
        return False

    def gpu(self, row: int) -> GpuNow:
        """Return the GPU in a row."""
        return self._gpus[row]

    def history(self, row: int) -> GpuHistory:
        """Return its history."""
        return self._histories.of(self._gpus[row].key)

    def row_of(self, key: tuple[str, str]) -> int | None:
        """Return the row of the GPU with that key; None if there is none."""
        return next((row for row, gpu in enumerate(self._gpus) if gpu.key == key), None)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008 - Qt's signature
        return 0 if parent.isValid() else len(self._gpus)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        gpu = self._gpus[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return shown(title_of(gpu))
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return shown(f"{title_of(gpu)}: {', '.join(self._parts(gpu))}")
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip("\n".join((gpu.device.name, gpu.device.uuid, *self._parts(gpu))))
        return None

    def _parts(self, gpu: GpuNow) -> list[str]:
        parts = [state_words(gpu)]
        if gpu.use is not None:
            parts.append(f"use {gpu.use:.0f} %")
        if gpu.memory_share is not None:
            parts.append(f"memory {gpu.memory_share:.0f} %")
        holder, user, until = holder_words(gpu), user_words(gpu), until_of(gpu)
        if holder:
            parts.append(f"held by {holder}" + (f" of {user}" if user else ""))
        if until is not None:
            parts.append(f"until {until_words(until, self._now)}")
        return parts
