"""Difference between the code of two runs, by their copies."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from torchdeck.agent.snapshots.folder import read_manifest
from torchdeck.agent.snapshots.manifest import LINK
from torchdeck.contract.bounded_file import read_bounded
from torchdeck.contract.file_names import name_of
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal

_LARGEST = 1 << 20
"""Bytes of a file of which the lines are compared."""


class NoCopyError(Refusal):
    """A run has no copy of its code to compare."""


def code_difference(before: RunLayout, after: RunLayout) -> Iterator[str]:
    """Yield the lines of a unified diff from the code of one run to that of another; none if it is the same.

    Raises:
        NoCopyError: one of them has no copy of its code here.
    """
    contents = []
    for layout in (before, after):
        manifest = read_manifest(layout)
        if manifest is None:
            raise NoCopyError(f"run {layout.root.name} has no copy of its code here")
        contents.append({entry.name: entry.content for entry in manifest.entries})
    one, other = contents
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            yield from _lines(name, one.get(name), other.get(name), before.code, after.code)


def _lines(name: str, one: str | None, other: str | None, before: Path, after: Path) -> Iterator[str]:
    from_name = "/dev/null" if one is None else f"a/{name}"
    to_name = "/dev/null" if other is None else f"b/{name}"
    old, new = _text(before, name, one), _text(after, name, other)
    if old is None or new is None:
        yield f"files {from_name} and {to_name} differ"
        return
    found = list(difflib.unified_diff(old, new, from_name, to_name, lineterm=""))
    yield from found or [f"the mode of {name} differs"]


def _text(folder: Path, name: str, content: str | None) -> list[str] | None:
    """Return the lines of a file; none if it does not exist; None if it is not a text, or too large."""
    if content is None:
        return []
    if content.startswith(LINK):
        return [content]
    try:
        return read_bounded(folder / name_of(name), _LARGEST).decode("utf-8").splitlines()
    except (OSError, ValueError):
        return None
