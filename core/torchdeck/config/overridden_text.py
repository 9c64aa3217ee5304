"""Run file text with the overrides of `--set` written into it."""

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
    """Return `text` with each override applied, later ones winning, as the loader puts them on top of the
    file.

    A table's keys join the existing ones, and of mutually exclusive keys the last one stays. Text that is
    no override is skipped, as it never had an effect.

    Raises:
        EditError: `text` is not TOML, or a key cannot be where an override puts it.
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
    """Return `text` without the [[tables]] at `path`, which a list replaces."""
    there: Any = tomllib.loads(text)
    for key in path:
        there = there.get(key) if isinstance(there, dict) else None
    tables = isinstance(there, list) and there and all(isinstance(item, dict) for item in there)
    for _ in there if tables else ():
        text = remove_table(text, (*path, 0))
    return text
