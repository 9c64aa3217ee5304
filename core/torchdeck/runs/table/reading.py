"""Rows of all runs of a home, read at once."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from torchdeck.runs.folders.notes import Note, known_notes
from torchdeck.runs.folders.settings import Settings, differing
from torchdeck.runs.run_list import RunEntry, RunList
from torchdeck.runs.table.arrangement import in_order
from torchdeck.runs.table.columns import metrics_in
from torchdeck.runs.table.row import Row
from torchdeck.runs.table.views import TableView


def read_rows(home: Path, wanted: Collection[str] = ()) -> list[Row]:
    """Return all runs of a home, the newest first.

    Args:
        home: TORCHDECK_HOME.
        wanted: names of values; those of metrics' histories, such as `loss:min`, are read.

    Raises:
        OSError: the folder of the runs cannot be listed.
    """
    runs = RunList(home, budget=math.inf)
    runs.wanted = metrics_in(wanted)
    return rows_of(runs.look().entries, known_notes(home))


def rows_of(entries: Sequence[RunEntry], notes: Mapping[str, Note]) -> list[Row]:
    """Return a row per run."""
    texts = differing_settings(entries)
    return [Row(each, notes.get(each.id, Note()), texts.get(each.id, "")) for each in entries]


def differing_settings(entries: Iterable[RunEntry]) -> dict[str, str]:
    """Return for each run what it sets that not all runs of its program do, by its id."""
    programs: dict[tuple[str, str], dict[str, Settings]] = defaultdict(dict)
    for entry in entries:
        if entry.view is not None:
            programs[entry.view.kind, entry.view.target][entry.id] = entry.settings
    texts: dict[str, str] = {}
    for runs in programs.values():
        texts |= differing(runs)
    return texts


def rows_in_view(home: Path, view: TableView) -> list[Row]:
    """Return the runs that a view shows, in its order. Raises as `read_rows`."""
    names = {*(view.columns or ()), view.sort, *view.filter.names}
    shown = (row for row in read_rows(home, names) if view.filter.takes(row))
    return in_order(shown, lambda row: row.sortable(view.sort), descending=view.descending)
