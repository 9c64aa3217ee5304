"""Tabs of the pages, for the command palette."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from PySide6.QtWidgets import QTabWidget, QWidget
from shiboken6 import isValid

from torchdeck_app.window.command_palette.items import PaletteItem
from torchdeck_app.window.window_actions import without_mnemonic


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
