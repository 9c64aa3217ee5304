"""Items of the command palette."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction

from torchdeck.quantities import moment
from torchdeck_app.widgets.state_badge import UNREADABLE, Look, look_of_run
from torchdeck_app.window.window_actions import plain_text, shortcut_text

if TYPE_CHECKING:  # a heavy import, kept out of the first paint
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
"""Synonyms of words in names."""
_WORD = re.compile(r"[^\W_]{3,}")
_TELLING = 4
"""Minimum letters of a tooltip word used as a keyword: shorter ones occur everywhere."""


def keywords(text: str, tip: str) -> frozenset[str]:
    """Return lower-case words that find an action, except those of its name.

    Args:
        text: its name.
        tip: its tooltip.
    """
    named = _WORD.findall(text.lower())
    like = (word for name in named for word in _LIKE.get(name, "").split())
    said = (word for word in _WORD.findall(tip.lower()) if len(word) >= _TELLING)
    return frozenset({*like, *said}.difference(named))


@dataclass(frozen=True)
class PaletteItem:
    """Line of the palette; `call` runs it."""

    key: str
    """Stable across starts."""
    text: str
    detail: str
    """Its page, or the creation time of a run."""
    call: Callable[[], object]
    shortcut: str = ""
    look: Look | None = None
    """Look of a run's state."""
    keywords: frozenset[str] = frozenset()
    """Additional search words in lower case."""


def action_items(
    actions: Mapping[str, Sequence[QAction]], trigger: Callable[[str, QAction], None]
) -> list[PaletteItem]:
    """Return the actions available now.

    Args:
        actions: actions by page name; the window's own under an empty name.
        trigger: called with page and action.
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
    """Return all runs in list order."""
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
