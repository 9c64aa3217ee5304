"""Form for a node's fields: one line per key of the schema, grouped under headings."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.fields import FieldInfo
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFormLayout, QLabel, QLineEdit, QSizePolicy, QVBoxLayout, QWidget

from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck_app.theme.fonts import Type
from torchdeck_app.widgets.panel import GRID, label

_TOOLTIP = 80
"""Maximum characters per line of the tooltip."""
_NAME = 15 * GRID
"""Width of the names in pixels."""
_NAME_HELP = "Name in run files: letters, digits, `_`, `-` and `.`. A node cannot be renamed."


class EntryForm(QWidget):
    """Form that reports its input and shows what is wrong with it."""

    changed = Signal()
    """Emitted on each edit."""

    def __init__(self, name: QLineEdit, values: Mapping[str, Any], parent: QWidget | None = None) -> None:
        """Args:
        name: the line for the node's name, shown first.
        values: initial values.
        parent: Qt parent.
        """
        super().__init__(parent)
        self.lines: dict[str, QLineEdit] = {}
        self._fields: dict[str, Field] = {}
        self._problems: dict[str, QLabel] = {}
        self._touched: set[str] = set(values)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, GRID, 0)
        column.setSpacing(GRID)
        first = self._section(column, "The node")
        self._add(first, "name", "name", _NAME_HELP, name)
        for heading, fields in fields_by_heading().items():
            form = self._section(column, heading)
            for field in fields:
                self._fields[field.name] = field
                line = QLineEdit(field.text(values.get(field.name)))
                line.setCursorPosition(0)
                line.setPlaceholderText(field.default)
                self._add(form, field.name, field.label, field.help, line)
        column.addStretch(1)

    def values(self) -> dict[str, Any]:
        """Return the input by key; empty fields are left out."""
        found = {name: field.value(self.lines[name].text()) for name, field in self._fields.items()}
        return {name: value for name, value in found.items() if value is not None}

    def show_problems(self, problems: Mapping[str, str]) -> None:
        """Show the problems at their fields; a field that was not visited yet may be empty."""
        for name, shown in self._problems.items():
            text = problems.get(name, "")
            if text and not self.lines[name].text() and name not in self._touched:
                text = ""
            shown.setText(f"✕ {text}" if text else "")
            shown.setVisible(bool(text))
            self.lines[name].setAccessibleDescription(text or self.lines[name].toolTip())

    def problem(self, name: str) -> str:
        """Return the problem shown at one field."""
        return self._problems[name].text()

    def _section(self, column: QVBoxLayout, heading: str) -> QFormLayout:
        column.addWidget(label(heading, Type.HEADING))
        form = QFormLayout()
        form.setHorizontalSpacing(GRID)
        form.setVerticalSpacing(4)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        column.addLayout(form)
        return form

    def _add(self, form: QFormLayout, name: str, text: str, help_text: str, line: QLineEdit) -> None:
        tip = "\n".join(textwrap.wrap(f"{name}: {help_text}", _TOOLTIP))
        line.setToolTip(tip)
        line.setAccessibleName(text)
        line.textEdited.connect(lambda _text: self._touch(name))
        shown = label("", role="error", wrap=True)
        shown.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        shown.hide()
        room = QVBoxLayout()
        room.setSpacing(2)
        room.addWidget(line)
        room.addWidget(shown)
        title = label(text)
        title.setMinimumWidth(_NAME)
        title.setToolTip(tip)
        form.addRow(title, room)
        self.lines[name], self._problems[name] = line, shown

    def _touch(self, name: str) -> None:
        self._touched.add(name)
        self.changed.emit()


# Fields of a node, built from the schema: names, help and conversion of input.

HEADINGS: Mapping[str, tuple[str, ...]] = {
    "Connection": ("address", "port", "user", "key", "jump"),
    "Python environment": ("python", "venv", "conda", "activate", "trusted_owners"),
}
"""Keys by heading; keys that are new in the schema come under the last one."""
LAST_HEADING = "Runtime settings"
_LABELS = {
    "key": "Private key",
    "jump": "Jump hosts",
    "venv": "Virtual environment",
    "conda": "Conda environment",
    "working_dir": "Working directory",
    "env": "Environment variables",
}
_REQUIRED = {"address": "required: a name, an address, a Host of ~/.ssh/config"}
_DEFAULT = re.compile(r"Default: (.+?)(?:[.;:]\s|\.?$)")


@dataclass(frozen=True)
class Field:
    """Key of a node in the form."""

    name: str
    help: str
    default: str
    """Effect of an empty field; for a required key, what is required."""
    required: bool
    is_list: bool
    is_number: bool

    @property
    def label(self) -> str:
        """Return the label."""
        return _LABELS.get(self.name) or self.name.replace("_", " ").capitalize()

    def value(self, text: str) -> Any:
        """Return the value of the input, None if empty; text that is not a number stays text, which the
        schema rejects.
        """
        if not self.is_list:
            return self._one(text.strip()) if text.strip() else None
        items = [self._one(part.strip()) for part in text.split(",") if part.strip()]
        return items or None

    def text(self, value: Any) -> str:
        """Return a value as input text."""
        if value is None:
            return ""
        return ", ".join(map(str, value)) if self.is_list else str(value)

    def _one(self, text: str) -> Any:
        return int(text) if self.is_number and re.fullmatch(r"-?[0-9]{1,9}", text) else text


def fields_by_heading() -> dict[str, list[Field]]:
    """Return all keys of a node in schema order."""
    found: dict[str, list[Field]] = {heading: [] for heading in (*HEADINGS, LAST_HEADING)}
    for name, info in NodeEntry.model_fields.items():
        heading = next((heading for heading, names in HEADINGS.items() if name in names), LAST_HEADING)
        found[heading].append(_field(name, info))
    return found


def _field(name: str, info: FieldInfo) -> Field:
    described, kind = str(info.description), str(info.annotation)
    default = _DEFAULT.search(described)
    is_list = "list" in kind
    return Field(
        name,
        described + (" Separate several by commas." if is_list else ""),
        default.group(1) if default is not None else _REQUIRED.get(name, "none"),
        info.is_required(),
        is_list,
        re.search(r"\bint\b", kind) is not None,
    )
