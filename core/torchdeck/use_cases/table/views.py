"""Save and delete views of the list of runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torchdeck.contract.atomic import copy_aside, write_json
from torchdeck.contract.layout import Home
from torchdeck.contract.lock_file import changing
from torchdeck.runs.table.views import (
    LONGEST_NAME,
    DamagedViewsError,
    TableView,
    ViewError,
    read_views,
    views_document,
)

Tell = Callable[[str], object]
"""Called with a sentence if the file was damaged and a copy of it was kept."""


def save_view(home: Path, name: str, view: TableView, tell: Tell = lambda _: None) -> dict[str, TableView]:
    """Save a view, or replace the one of that name; return all views. Safe for two windows at once.

    Raises:
        ViewError: the name is empty or too long, or the file is from a newer Torchdeck.
        OSError: the file cannot be written; the old one is still there.
    """
    name = name.strip()
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise ViewError("a view needs a name", fix=f"enter 1 to {LONGEST_NAME} printable characters")
    return _changed(home, name, view, tell)


def delete_view(home: Path, name: str, tell: Tell = lambda _: None) -> dict[str, TableView]:
    """Delete a view, if there is one; return the others. Raises as `save_view`."""
    return _changed(home, name, None, tell)


def _changed(home: Path, name: str, view: TableView | None, tell: Tell) -> dict[str, TableView]:
    with changing(Home(home).views):
        try:
            views = read_views(home)
        except DamagedViewsError as error:
            views = {}
            tell(f"{error.what}: a copy is kept in {copy_aside(Home(home).views).name}")
        if view is None:
            views.pop(name, None)
        else:
            views[name] = view
        write_json(Home(home).views, views_document(views))
    return dict(sorted(views.items()))
