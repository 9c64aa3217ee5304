"""What the window waits for: said after 0.2 s, to be cancelled after 5 s."""

from __future__ import annotations

import time
from typing import Any

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from torchdeck_app.bridge.operations import Operation, Operations
from torchdeck_app.widgets.elided_label import ElidedLabel
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.widgets.tooltip import plain_tip

SHOWN_AFTER = 0.2
"""Seconds."""
CANCEL_AFTER = 5.0
_WIDTH = 40 * GRID


class OperationsLine(QWidget):
    """The oldest operation under way, by name and progress, and how many others there are."""

    def __init__(self, operations: Operations, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._began: dict[Operation[Any], float] = {}
        self._progress: dict[Operation[Any], str] = {}
        self._text = ElidedLabel()
        self._text.setProperty("role", "secondary")
        self._text.setFixedWidth(_WIDTH)
        self._text.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._cancel = QToolButton()
        self._cancel.setText("Cancel")
        self._cancel.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._cancel.clicked.connect(self._cancel_first)
        kept = self._cancel.sizePolicy()
        kept.setRetainSizeWhenHidden(True)
        self._cancel.setSizePolicy(kept)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, GRID, 0)
        row.addWidget(self._text)
        row.addWidget(self._cancel)
        self._clock = QTimer(self)
        self._clock.setInterval(100)
        self._clock.timeout.connect(self._show)
        operations.started.connect(self._add)
        operations.ended.connect(self._remove)
        self._show()

    def _add(self, operation: Operation[Any]) -> None:
        self._began[operation] = time.monotonic()
        operation.progressed.connect(lambda text: self._said(operation, text))
        self._clock.start()

    def _said(self, operation: Operation[Any], text: str) -> None:
        if operation in self._began:
            self._progress[operation] = text

    def _remove(self, operation: Operation[Any]) -> None:
        self._began.pop(operation, None)
        self._progress.pop(operation, None)
        self._show()

    def _first(self) -> Operation[Any] | None:
        return next(iter(self._began), None)

    def _show(self) -> None:
        first = self._first()
        if first is None:
            self._clock.stop()
        waited = 0.0 if first is None else time.monotonic() - self._began[first]
        visible = first is not None and waited >= SHOWN_AFTER
        self._text.setText(self._line(first) if first is not None and visible else "")
        names = "\n".join(operation.name for operation in self._began) if visible else ""
        self._text.setToolTip(plain_tip(names))
        self._cancel.setVisible(visible and waited >= CANCEL_AFTER)
        if first is not None:
            asked = first.token.wanted
            self._cancel.setEnabled(not asked)
            self._cancel.setToolTip(plain_tip(f"Cancel: {first.name}"))
            self._cancel.setAccessibleName(f"Cancel {first.name}")

    def _line(self, first: Operation[Any]) -> str:
        said = self._progress.get(first, "")
        line = f"{first.name}: {said}" if said else f"{first.name} …"
        if first.token.wanted:
            line = f"{first.name}: being cancelled …"
        return line if len(self._began) == 1 else f"{line}  and {len(self._began) - 1} more"

    def _cancel_first(self) -> None:
        first = self._first()
        if first is not None:
            first.cancel()
            self._show()
