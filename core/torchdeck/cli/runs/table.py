"""`torchdeck runs list` with columns, a saved view, an order or groups."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchdeck.cli.output import json_text
from torchdeck.runs.query.expression import parsed
from torchdeck.runs.query.values import NAMES
from torchdeck.runs.table.arrangement import Section, in_common, in_sections, summary
from torchdeck.runs.table.columns import column_names, value_text
from torchdeck.runs.table.row import Row
from torchdeck.runs.table.run_filter import RunFilter
from torchdeck.runs.table.views import TableView, view_named

GAP = "  "
USUAL = ("loss", "validation", "step", "took")
"""Columns of groups if none are chosen."""
UNREADABLE = "UNREADABLE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose and arrange rows."""
    parser.add_argument(
        "--where",
        metavar="EXPRESSION",
        help="only runs that fulfil it: 'training.lr > 1e-3 and state = failed'; keys of run.toml, metrics "
        f"(grad_norm, loss:min, loss:max, accuracy:best, loss@1000), and {', '.join(NAMES)}; "
        "= != < <= > >= ~ (contains), and, or, not, parentheses",
    )
    parser.add_argument(
        "--columns",
        metavar="NAME[,NAME...]",
        help="columns after id, name and state; names as in --where: training.lr,loss:best,loss@1000",
    )
    parser.add_argument("--sort", metavar="NAME", help="sort by a value, ascending; default: newest first")
    parser.add_argument("--descending", action="store_true", help="reverse the order of --sort")
    parser.add_argument(
        "--group",
        metavar="NAME",
        help="one line per group of runs with the same value, with mean and standard deviation; !seed: runs "
        "that are equal in all settings but the seed",
    )
    parser.add_argument("--view", metavar="NAME", help="filter, columns, order and groups of a saved view")
    parser.add_argument("--archived", action="store_true", help="show archived runs, too")


def view_of(args: argparse.Namespace, home: Path) -> TableView | None:
    """Return what the options ask for; None if they choose and arrange nothing.

    Raises:
        Refusal: the expression or the columns cannot be read, or there is no such view.
    """
    options = (args.where, args.columns, args.sort, args.group, args.view)
    if options == (None,) * len(options):
        return None
    view = TableView() if args.view is None else view_named(home, args.view)
    text, groups = view.filter.text, view.filter.groups
    if args.where is not None:
        parsed(args.where)
        text = f"({text}) and ({args.where})" if RunFilter(text).names else args.where
    view = replace(view, filter=RunFilter(text, groups, view.filter.archived or args.archived))
    if args.columns is not None:
        view = replace(view, columns=column_names(args.columns))
    if args.sort is not None:
        view = replace(view, sort=args.sort, descending=args.descending)
    return view if args.group is None else replace(view, group=args.group)


def print_rows(rows: Sequence[Row], view: TableView, *, as_json: bool) -> None:
    """Print rows with the columns of a view, in its groups if it has any."""
    columns = USUAL if view.columns is None else view.columns
    sections = in_sections(rows, view.group)
    if as_json:
        found = (
            [_group_json(each, columns) for each in sections]
            if view.group
            else [_row_json(row, columns) for row in rows]
        )
        print(json_text(found, indent=1))
        return
    if view.group:
        lines = [("GROUP", "RUNS", *_headings(columns)), *(_group_cells(each, columns) for each in sections)]
    else:
        lines = [("ID", "NAME", "STATE", *_headings(columns)), *(_cells(row, columns) for row in rows)]
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    for line in lines:
        print(GAP.join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def _headings(columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.upper() for name in columns)


def _cells(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    texts = (value_text(name, row.value(name)) or "-" for name in columns)
    return (row.entry.id, row.name, _state(row), *texts)


def _state(row: Row) -> str:
    return UNREADABLE if row.entry.view is None else row.entry.view.state.value


def _row_json(row: Row, columns: Sequence[str]) -> dict[str, Any]:
    values = {name: _plain(row.value(name)) for name in columns}
    return {"id": row.entry.id, "name": row.name, "state": _state(row), "values": values}


def _plain(value: Any) -> Any:
    """Return a value that JSON can represent."""
    return None if isinstance(value, float) and not abs(value) < float("inf") else value


def _group_cells(section: Section, columns: Sequence[str]) -> tuple[str, ...]:
    texts = []
    for name in columns:
        found = summary(row.sortable(name) for row in section.rows)
        same = in_common(filter(None, (value_text(name, row.value(name)) for row in section.rows)))
        texts.append(same or ("-" if found is None else found.text))
    return (section.title, f"{len(section.rows):,}", *texts)


def _group_json(section: Section, columns: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in columns:
        found = summary(row.sortable(name) for row in section.rows)
        same = in_common(filter(None, (value_text(name, row.value(name)) for row in section.rows)))
        values[name] = (same or None) if found is None else found._asdict()
    return {"group": section.title, "runs": [row.entry.id for row in section.rows], "values": values}
