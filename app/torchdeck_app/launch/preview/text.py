"""Labels for texts that come from files."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QSizePolicy

from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.widgets.elided_label import ElidedLabel
from torchdeck_app.widgets.panel import label


def line_label(kind: Type = Type.BODY, role: str = "") -> ElidedLabel:
    """One line that takes the width it is given, and is elided where that is too little."""
    made = ElidedLabel()
    made.setFont(font(kind))
    if role:
        made.setProperty("role", role)
    made.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    made.setFixedHeight(made.fontMetrics().height())
    return made


def wrapped_label(kind: Type = Type.BODY, role: str = "") -> QLabel:
    """Lines that are broken where there is no room."""
    made = label(kind=kind, role=role, wrap=True)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return made
