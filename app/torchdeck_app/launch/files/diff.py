"""Differences between two run files, by key and by line."""

from __future__ import annotations

from difflib import unified_diff
from typing import Any, Literal, NamedTuple

from torchdeck.config.keys import Key, all_keys
from torchdeck.config.problems import shown
from torchdeck.config.toml.differences import Absent, Difference, as_shown, differences
from torchdeck.config.toml.document import parse
from torchdeck_app.launch.document.values import plain, same_value


class DiffLine(NamedTuple):
    """Line of a unified diff."""

    kind: Literal["same", "added", "removed", "place"]
    text: str


class DiffRow(NamedTuple):
    """Key that differs."""

    key: str
    before: str
    after: str


def by_line(before: str, after: str) -> list[DiffLine]:
    """Return a unified diff; empty if the texts are equal."""
    kinds: dict[str, Literal["added", "removed", "place"]] = {"+": "added", "-": "removed", "@": "place"}
    lines = unified_diff(before.splitlines(), after.splitlines(), lineterm="")
    return [DiffLine(kinds.get(line[:1], "same"), line) for line in list(lines)[2:]]


def by_key(before: str, after: str) -> list[DiffRow]:
    """Return every key whose effective value differs; a missing key has its default.

    Raises:
        ValueError: one of the texts is not TOML.
    """
    old, new = parse(before), parse(after)
    keys = dict(all_keys(_recipe(old))) | dict(all_keys(_recipe(new)))
    return [
        DiffRow(
            item.name,
            _value(item.before, keys.get(item.path)),
            _value(item.after, keys.get(item.path)),
        )
        for item in differences(old, new)
        if not _is_same(item, keys.get(item.path))
    ]


def _recipe(table: dict[str, Any]) -> str | None:
    run = table.get("run")
    name = run.get("recipe") if isinstance(run, dict) else None
    return name if isinstance(name, str) else None


def _is_same(item: Difference, key: Key | None) -> bool:
    """Return whether both are equal in effect: one is the default, or the same value in another notation,
    such as a size.
    """
    if key is None:
        return False
    one, other = (
        key.default if isinstance(value, Absent) else plain(key, value) for value in (item.before, item.after)
    )
    return one is not None and other is not None and same_value(one, other)


def _value(value: object, key: Key | None) -> str:
    if not isinstance(value, Absent):
        return as_shown(value)
    if key is None or key.default is None:
        return "–"
    default = list(key.default) if isinstance(key.default, tuple) else key.default
    return f"– (default {shown(default)})"
