"""Saved views of the table: one small file in the home, for the window and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchdeck.contract.bounded_json import JsonError, read_json_file
from torchdeck.contract.layout import Home
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.table.columns import MOST_COLUMNS
from torchdeck.runs.table.run_filter import STATE_GROUPS, RunFilter

_VERSION = 1
LONGEST_NAME = 80
"""Characters of a view's name."""
NEWEST_FIRST = "started"


@dataclass(frozen=True)
class TableView:
    """Filter, columns, order and grouping of the table."""

    filter: RunFilter = field(default_factory=RunFilter)
    columns: tuple[str, ...] | None = None
    """Names of the chosen columns; None: as many of the usual ones as fit."""
    sort: str = NEWEST_FIRST
    descending: bool = True
    group: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "text": self.filter.text,
            "groups": sorted(self.filter.groups),
            "archived": self.filter.archived,
            "columns": None if self.columns is None else list(self.columns),
            "sort": self.sort,
            "descending": self.descending,
            "group": self.group,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TableView:
        """Restore the result of `to_json`; invalid parts get their defaults."""
        text, groups, columns = value.get("text"), value.get("groups"), value.get("columns")
        known = frozenset(STATE_GROUPS).intersection(map(str, groups)) if isinstance(groups, list) else ()
        chosen = None
        if isinstance(columns, list):
            chosen = tuple(dict.fromkeys(each for each in columns if isinstance(each, str)))[:MOST_COLUMNS]
        sort, group = value.get("sort"), value.get("group")
        return cls(
            RunFilter(text if isinstance(text, str) else "", frozenset(known), value.get("archived") is True),
            chosen,
            sort if isinstance(sort, str) and sort else NEWEST_FIRST,
            value.get("descending") is not False,
            group if isinstance(group, str) else "",
        )


class ViewError(Refusal):
    """A view cannot be found, named or kept; the message says why."""

    is_usage = True


class DamagedViewsError(ViewError):
    """The file holds no views that can be read."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} is damaged",
            why,
            fix="repair it, or save a view: that begins a new file and keeps a copy of this one",
        )


def read_views(home: Path) -> dict[str, TableView]:
    """Read the saved views by name, sorted; none if there is no file.

    Raises:
        DamagedViewsError: the file is damaged.
        ViewError: it is from a newer Torchdeck.
        OSError: it cannot be read.
    """
    path = Home(home).views
    try:
        value = read_json_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except JsonError as error:
        raise DamagedViewsError(path, str(error)) from error
    if isinstance(value, Mapping) and isinstance(value.get("v"), int) and value["v"] > _VERSION:
        raise ViewError(f"{path} was written by a newer Torchdeck", fix="update this one")
    views = value.get("views") if isinstance(value, Mapping) else None
    if not isinstance(views, Mapping):
        raise DamagedViewsError(path, "it is not a table of views")
    return {
        str(name): TableView.from_json(view)
        for name, view in sorted(views.items())
        if isinstance(view, Mapping)
    }


def views_document(views: Mapping[str, TableView]) -> dict[str, Any]:
    """Return what the file holds."""
    return {"v": _VERSION, "views": {name: view.to_json() for name, view in views.items()}}


def view_named(home: Path, name: str) -> TableView:
    """Return one saved view.

    Raises:
        ViewError: there is none of that name, or the file is damaged or from a newer Torchdeck.
        OSError: the file cannot be read.
    """
    views = read_views(home)
    if name not in views:
        known = ", ".join(views) if views else "no view is saved"
        raise ViewError(f"there is no view {name!r}", fix=f"expected one of: {known}" if views else known)
    return views[name]
