"""Items of the command palette: actions, tabs of the pages and runs; and how well they match a query."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QTabWidget, QWidget
from shiboken6 import isValid

from torchdeck.quantities import moment
from torchdeck_app.widgets.state_badge import UNREADABLE, Look, look_of_run
from torchdeck_app.window.window_actions import plain_text, shortcut_text, without_mnemonic

if TYPE_CHECKING:
    from torchdeck.runs.run_list import RunEntry


def tab_items(places: Mapping[str, QWidget], show: Callable[[str], None]) -> list[PaletteItem]:
    """Return the tabs that are available on each page, also those nested in background tabs.

    Args:
        places: pages by name, in their order.
        show: shows a page by name.
    """
    items: dict[str, PaletteItem] = {}
    for name, place in places.items():
        for path in _paths(place):
            texts = [without_mnemonic(tabs.tabText(at)) for tabs, at in path]
            key = f"tab:{name}/{'/'.join(texts)}"
            items.setdefault(
                key,
                PaletteItem(
                    key,
                    texts[-1],
                    " › ".join((name, *texts[:-1], "tab")),
                    lambda name=name, path=path: _open(name, path, show),  # type: ignore[misc]  # no default inferred
                ),
            )
    return list(items.values())


_Path = tuple[tuple[QTabWidget, int], ...]
"""Index of the tab in each tab widget, from outer to inner."""


def _paths(inside: QWidget, before: _Path = ()) -> Iterator[_Path]:
    for tabs in _outermost(inside):
        for at in range(tabs.count()):
            page: QWidget | None = tabs.widget(at)
            if page is None or not tabs.isTabVisible(at) or not tabs.isTabEnabled(at):
                continue
            path = (*before, (tabs, at))
            yield path
            yield from _paths(page, path)


def _outermost(inside: QWidget) -> list[QTabWidget]:
    """Return the tab widgets visible with `inside`; not those nested in other tabs, or in a dialog."""
    if isinstance(inside, QTabWidget):
        return [inside]
    found = (tabs for tabs in inside.findChildren(QTabWidget) if tabs.window() is inside.window())
    return [tabs for tabs in found if _outer(tabs, inside) is None and tabs.isVisibleTo(inside)]


def _outer(tabs: QTabWidget, inside: QWidget) -> QTabWidget | None:
    """Return the tab widget that contains it, if that is within `inside`."""
    parent: QWidget | None = tabs.parentWidget()
    while parent is not None and parent is not inside:
        if isinstance(parent, QTabWidget):
            return parent
        parent = parent.parentWidget()
    return None


def _open(name: str, path: _Path, show: Callable[[str], None]) -> None:
    show(name)
    for tabs, at in path:
        if not isValid(tabs) or at >= tabs.count():
            return  # it was deleted with its page
        tabs.setCurrentIndex(at)
    path[-1][0].tabBar().setFocus()


# Items of the command palette.

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
    "queue": "schedule later wait",
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


# Match quality of a text for a query.

_STARTS = 8
"""Maximum start positions tried for scattered letters."""
_SUBSTRING = 100.0
_WORD_START = 40.0
_TEXT_START = 20.0
_RECENT = 15.0
_KEYWORD, _KEYWORD_BEGUN = 80.0, 10.0
"""Scores: a whole keyword counts more than scattered letters, a keyword prefix less than any match in the
text.
"""
_KEYWORD_LEAST = 3
"""Minimum letters of a keyword prefix: fewer match too many."""
T = TypeVar("T")


class Match(NamedTuple):
    """Match of a text."""

    score: float
    positions: tuple[int, ...]
    """Positions of the matching letters, to highlight."""


def match(query: str, text: str, beside: str = "", keywords: Collection[str] = ()) -> Match | None:
    """Return how `text` matches: each word of `query` occurs in it, whole or as letters in order; None else.

    Args:
        query: words in any order.
        text: text to search, to which positions refer.
        beside: additional text; a word found whole in it matches too.
        keywords: additional search words in lower case.
    """
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter that lowers to two would shift positions
        lowered = text
    score, positions = 0.0, set[int]()
    for word in query.lower().split():
        found = _whole(word, lowered) or _strewn(word, lowered)
        if word in beside.lower() and (found is None or found.score < _SUBSTRING):
            found = Match(_SUBSTRING / 2, ())
        if word in keywords and (found is None or found.score < _KEYWORD):
            found = Match(_KEYWORD, ())
        if found is None and len(word) >= _KEYWORD_LEAST and any(key.startswith(word) for key in keywords):
            found = Match(_KEYWORD_BEGUN, ())
        if found is None:
            return None
        score += found.score
        positions.update(found.positions)
    return Match(score, tuple(sorted(positions)))


def ranked(
    query: str, texts: Iterable[tuple[T, str, str, Collection[str]]], recent: Sequence[T]
) -> list[tuple[T, Match]]:
    """Return the matches, best first; recently used ones come before equal ones.

    Args:
        query: the input; if empty, everything matches and recent ones come first.
        texts: (key, text, additional text, keywords) in the order in which equal ones stay.
        recent: keys, newest first.
    """
    lately = {key: len(recent) - index for index, key in enumerate(recent)}
    found = []
    for key, text, beside, keywords in texts:
        fit = match(query, text, beside, keywords)
        if fit is not None:
            bonus = _RECENT + lately[key] if key in lately else 0.0
            found.append((key, fit, fit.score + bonus))
    found.sort(key=lambda entry: -entry[2])
    return [(key, fit) for key, fit, _ in found]


def _whole(word: str, text: str) -> Match | None:
    """Match the whole word, preferably at the start of a word of the text."""
    best = None
    at = text.find(word)
    while at >= 0:
        score = _SUBSTRING + _TEXT_START * (at == 0) + _WORD_START * _begins(text, at) - at / 100
        if best is None or score > best.score:
            best = Match(score, tuple(range(at, at + len(word))))
        at = text.find(word, at + 1)
    return best


def _strewn(word: str, text: str) -> Match | None:
    """Match its letters in order with others between: word starts score, gaps cost."""
    best = None
    start = text.find(word[0])
    for _ in range(_STARTS):
        if start < 0:
            break
        positions = _after(word, text, start)
        if positions is None:
            break
        starts = sum(_begins(text, at) for at in positions)
        gaps = positions[-1] - positions[0] + 1 - len(word)
        score = 40.0 + 8.0 * starts - gaps
        if best is None or score > best.score:
            best = Match(score, positions)
        start = text.find(word[0], start + 1)
    return best


def _after(word: str, text: str, start: int) -> tuple[int, ...] | None:
    positions = [start]
    for letter in word[1:]:
        at = text.find(letter, positions[-1] + 1)
        if at < 0:
            return None
        positions.append(at)
    return tuple(positions)


def _begins(text: str, at: int) -> bool:
    return at == 0 or not text[at - 1].isalnum()
