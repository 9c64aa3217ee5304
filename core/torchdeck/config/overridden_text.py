"""A run file's text as it would have to be for `--set` to be superfluous."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from torchdeck.config.layers import EXCLUSIVE
from torchdeck.config.overrides import parse_override
from torchdeck.config.problems import Problem
from torchdeck.config.toml.differences import leaves
from torchdeck.config.toml.document import KeyPath
from torchdeck.config.toml.edit import remove_table, remove_value, set_value


def with_overrides(text: str, overrides: Sequence[str]) -> str:
    """`text` with each override put in, later ones winning, as the loader lays them on top of the file.

    A table's keys join those that are there, and of keys that exclude each other the last one stays. What is
    no override is passed over, as it has never been in effect.

    Raises:
        EditError: `text` is not TOML, or a key cannot stand where an override puts it.
    """
    for item in overrides:
        override = parse_override(item)
        if isinstance(override, Problem):
            continue
        values = {override.path: override.value}
        if isinstance(override.value, Mapping):
            values = {(*override.path, *path): value for path, value in leaves(override.value)}
        for path, value in values.items():
            text = _with_value(text, path, value)
    return text


def _with_value(text: str, path: KeyPath, value: Any) -> str:
    for group in EXCLUSIVE:
        for other in group if path in group else ():
            if other != path:
                text = remove_value(text, other)
    if isinstance(value, list):
        text = _without_tables(text, path)
    return set_value(text, path, value)


def _without_tables(text: str, path: KeyPath) -> str:
    """`text` without the [[tables]] at `path`, which a list takes the place of."""
    there: Any = tomllib.loads(text)
    for key in path:
        there = there.get(key) if isinstance(there, dict) else None
    tables = isinstance(there, list) and there and all(isinstance(item, dict) for item in there)
    for _ in there if tables else ():
        text = remove_table(text, (*path, 0))
    return text
