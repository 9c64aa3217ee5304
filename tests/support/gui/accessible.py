"""What a screen reader is told: the tree of accessible interfaces below a widget."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QWidget

Role = QAccessible.Role
INTERACTIVE = frozenset(
    {
        Role.Button,
        Role.ButtonDropDown,
        Role.ButtonMenu,
        Role.CheckBox,
        Role.ComboBox,
        Role.EditableText,
        Role.Link,
        Role.List,
        Role.PageTab,
        Role.PageTabList,
        Role.RadioButton,
        Role.Slider,
        Role.SpinBox,
        Role.Table,
        Role.Tree,
    }
)
NOT_ACTED_ON = frozenset(
    {Role.Cell, Role.ListItem, Role.RowHeader, Role.ColumnHeader, Role.StaticText, Role.TreeItem}
)
"""Cells and texts: an empty one says nothing, and two may be alike."""
MOST = 40
"""Children of one interface that are looked at: those of a long table are all alike."""


@dataclass(frozen=True)
class Node:
    """One interface that a person can act on; `path` has the classes of those around it."""

    role: QAccessible.Role
    name: str
    description: str
    enabled: bool
    path: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.role.name} {self.name!r} in {' > '.join(self.path[-4:])}"


def interactive(root: QWidget) -> list[Node]:
    """All below a window that is visible and takes the focus, or has a role for which people act on it.

    Interfaces are not asked for their widgets: PySide would then give up its objects of widgets and actions
    that Qt has made.
    """
    found: QAccessibleInterface | None = QAccessible.queryAccessibleInterface(root)
    return [] if found is None else list(_below(found, ()))


def _below(parent: QAccessibleInterface, path: tuple[str, ...]) -> Iterator[Node]:
    is_named = parent.state().focusable and parent.text(QAccessible.Text.Name)
    for child in _children(parent):
        role, around = child.role(), (*path, _class_of(child))
        stands_for = any(each.role() is Role.PageTabList for each in _children(child))
        is_inside = is_named and role is Role.Client  # the viewport of a view of graphics
        is_other = stands_for or is_inside or role in NOT_ACTED_ON
        if not is_other and (child.state().focusable or role in INTERACTIVE):
            description = child.text(QAccessible.Text.Description)
            yield Node(role, spoken_name(child), description, not child.state().disabled, around)
        yield from _below(child, around)


def _children(parent: QAccessibleInterface) -> list[QAccessibleInterface]:
    found: list[QAccessibleInterface | None] = [
        parent.child(number) for number in range(min(parent.childCount(), MOST))
    ]
    return [child for child in found if child is not None and not child.state().invisible]


def _class_of(interface: QAccessibleInterface) -> str:
    found = re.search(r"obj=(\w+)", repr(interface))
    return interface.role().name if found is None else found[1]


def spoken_name(interface: QAccessibleInterface) -> str:
    """What a screen reader calls it; the name of a combo box is its value, and its label says what it is."""
    if interface.role() is not Role.ComboBox:
        return interface.text(QAccessible.Text.Name)
    labels = [one for one, relation in interface.relations() if relation is QAccessible.RelationFlag.Label]
    return " ".join(label.text(QAccessible.Text.Name) for label in labels)


def nameless(nodes: list[Node]) -> list[str]:
    """Those of which nothing is said."""
    return [str(node) for node in nodes if not node.name.strip()]


def twins(nodes: list[Node]) -> list[str]:
    """Those of one window that a person cannot tell apart by ear."""
    seen: dict[tuple[object, ...], Node] = {}
    found = []
    for node in nodes:
        if node.enabled and node.name and node.role is not Role.PageTab:
            other = seen.setdefault((node.role, node.name, node.description), node)
            found += [f"{node} and {' > '.join(other.path[-4:])}"] if other is not node else []
    return found
