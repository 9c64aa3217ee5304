"""What the command palette offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction

from torchdeck.quantities import moment
from torchdeck_app.widgets.state_badge import UNREADABLE, Look, look_of_run
from torchdeck_app.window.command_palette.keywords import keywords
from torchdeck_app.window.window_actions import plain_text, shortcut_text

if TYPE_CHECKING:  # it imports much, and the first paint waits for nothing
    from torchdeck.runs.run_list import RunEntry


@dataclass(frozen=True)
class PaletteItem:
    """One line; `call` does it."""

    key: str
    """The same at the next start."""
    text: str
    detail: str
    """The place it belongs to, or when a run was made."""
    call: Callable[[], object]
    shortcut: str = ""
    look: Look | None = None
    """Of a run's state."""
    keywords: frozenset[str] = frozenset()
    """What it is also found by: words in lower case."""


def action_items(
    actions: Mapping[str, Sequence[QAction]], trigger: Callable[[str, QAction], None]
) -> list[PaletteItem]:
    """What can be done now.

    Args:
        actions: by the name of their place; the window's own under an empty name.
        trigger: called with place and action.
    """
    return [
        PaletteItem(
            f"action:{place}/{plain_text(action)}",
            plain_text(action),
            place or "Window",
            lambda place=place, action=action: trigger(place, action),  # type: ignore[misc]  # mypy infers no default
            shortcut_text(action),
            keywords=keywords(plain_text(action), action.toolTip()),
        )
        for place, offered in actions.items()
        for action in offered
        if action.isEnabled() and action.isVisible() and not action.isSeparator() and plain_text(action)
    ]


def run_items(entries: Iterable[RunEntry], open_run: Callable[[str], None]) -> list[PaletteItem]:
    """All runs, in the order of the list."""
    return [
        PaletteItem(
            f"run:{entry.id}",
            entry.name,
            f"run of {moment(entry.view.created)}" if entry.view is not None else "run",
            lambda run_id=entry.id: open_run(run_id),  # type: ignore[misc]  # mypy infers no default
            look=UNREADABLE if entry.view is None else look_of_run(entry.view),
        )
        for entry in entries
    ]
