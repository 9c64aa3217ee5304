"""Use case: the file and node that a place in a run's output means."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.contract.atomic import read_json
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.failures.code_place import CodePlace
from torchdeck.runs.follower import read_run
from torchdeck.runs.view import RunView
from torchdeck.shown_text import shown_line

_LONGEST = 4096
_WORKSPACE = ".code-workspace"
"""Suffix of files that an editor opens as a project with tasks, not as text."""


class SourcePlace(NamedTuple):
    """A line of a file on a machine; the path is absolute, and was checked."""

    path: str
    line: int
    column: int | None = None
    node: str = LOCALHOST
    """Node that has the file, by its name in the node inventory."""


def find_source(layout: RunLayout, place: CodePlace, rank: int | None = None) -> SourcePlace:
    """Return the file that a place in a run's output means. Blocks.

    For the run's copy of the user's code it is the user's own file, if that exists here.

    Args:
        layout: of the run.
        place: as the output names it.
        rank: the rank that printed it; None: not known.

    Raises:
        Refusal: the text is not a path, or there is no such file here.
    """
    view = read_run(layout)
    node, folder = _node_of(layout, rank)
    path = _path(place.file, folder or view.code_folder)
    own = _own_file(path, view)
    if own is not None:
        return SourcePlace(own, place.line, place.column)
    if node == LOCALHOST and not Path(path).is_file():
        raise Refusal(f"{shown_line(path)} is not a file on this machine")
    return SourcePlace(path, place.line, place.column, node)


def _path(written: str, folder: str) -> str:
    """Return the absolute path; `..` and double slashes are resolved by name."""
    is_shown = shown_line(written) == written
    if not written or len(written) > _LONGEST or not is_shown:
        raise Refusal("this line names no path that can be opened")
    if not written.startswith("/") and not folder:
        raise Refusal(f"{shown_line(written)} is relative, and its folder is not known")
    path = posixpath.normpath(f"{folder.rstrip('/')}/{written}" if not written.startswith("/") else written)
    path = f"/{path.lstrip('/')}"
    if path.endswith(_WORKSPACE):
        raise Refusal(f"{shown_line(path)} is a project of an editor, not a text")
    return path


def _own_file(path: str, view: RunView) -> str | None:
    """Return the user's file here that a path means; None if there is none."""
    _, copied, below = path.partition(f"/{view.id}/code/")
    found = posixpath.join(view.code_folder, below) if copied else path
    is_own = bool(view.code_folder) and found.startswith(f"{view.code_folder}/")
    return found if is_own and Path(found).is_file() else None


def _node_of(layout: RunLayout, rank: int | None) -> tuple[str, str]:
    """Return the node of a rank, or the first one, and the folder in which ranks start there; "" if it is not
    known.
    """
    newest = max(layout.attempt_numbers(), default=0)
    document = read_json(layout.attempt(newest).plan) if newest else None
    document = document if isinstance(document, dict) else read_json(layout.plan)
    nodes = document.get("nodes") if isinstance(document, dict) else None
    before = 0
    known = [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []
    for node in known:
        count = node.get("nproc")
        before += count if isinstance(count, int) else 0
        if rank is None or rank < before:
            return _named(node)
    return _named(known[0]) if known else (LOCALHOST, "")


def _named(node: dict[str, Any]) -> tuple[str, str]:
    folder = str(node.get("working_dir") or "")
    return str(node.get("name") or LOCALHOST), folder if folder.startswith("/") else ""
