"""Labels for texts from files."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QSizePolicy

from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.widgets.labels import ElidedLabel
from torchdeck_app.widgets.panel import label


def line_label(kind: Type = Type.BODY, role: str = "") -> ElidedLabel:
    """Create a one-line label that takes the available width and is elided if needed."""
    made = ElidedLabel()
    made.setFont(font(kind))
    if role:
        made.setProperty("role", role)
    made.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    made.setFixedHeight(made.fontMetrics().height())
    return made


def wrapped_label(kind: Type = Type.BODY, role: str = "") -> QLabel:
    """Create a label whose lines wrap."""
    made = label(kind=kind, role=role, wrap=True)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return made
