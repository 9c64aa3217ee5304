"""What the command palette offers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction

from torchdeck.quantities import moment
from torchdeck_app.widgets.state_badge import UNREADABLE, Look, look_of_run
from torchdeck_app.window.window_actions import plain_text, shortcut_text

if TYPE_CHECKING:  # it imports much, and the first paint waits for nothing
    from torchdeck.runs.run_list import RunEntry


_LIKE: Mapping[str, str] = {
    "add": "new create",
    "attach": "follow connect reconnect",
    "cancel": "abort",
    "check": "test preflight verify",
    "clone": "copy duplicate",
    "colours": "theme mode appearance",
    "delete": "remove erase trash",
    "filter": "search find",
    "import": "ssh hosts",
    "launch": "start begin",
    "node": "ssh host machine server computer",
    "nodes": "ssh hosts machines servers computers gpus",
    "resume": "continue restart",
    "runs": "history jobs training",
    "settings": "preferences options configuration",
    "shortcuts": "keys help",
    "stop": "cancel end abort kill",
    "tags": "label comment",
}
"""Other words for those that stand in names."""
_WORD = re.compile(r"[^\W_]{3,}")
_TELLING = 4
"""Letters of a word in a tooltip that says something: shorter ones stand in all."""


def keywords(text: str, tip: str) -> frozenset[str]:
    """Words in lower case that find an action, those of its name aside.

    Args:
        text: its name.
        tip: what its tooltip says.
    """
    named = _WORD.findall(text.lower())
    like = (word for name in named for word in _LIKE.get(name, "").split())
    said = (word for word in _WORD.findall(tip.lower()) if len(word) >= _TELLING)
    return frozenset({*like, *said}.difference(named))


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
