"""Values given on the command line: `--set training.lr=3e-4`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.config.keys import all_keys
from torchdeck.config.layers import EXCLUSIVE, Layer, Merged, Origin
from torchdeck.config.problems import OVERRIDE, Problem
from torchdeck.config.toml.document import MAX_DEPTH, KeyPath
from torchdeck.config.toml.edit import remove_table, remove_value, set_value
from torchdeck.config.toml.merge import leaves

SYNTAX = "KEY=VALUE, such as training.lr=3e-4"
_PART = r"""[ \t]*(?:[A-Za-z0-9_-]+|"[^"\\\x00-\x1f\x7f]*"|'[^'\x00-\x1f\x7f]*')[ \t]*"""
_KEY = re.compile(rf"{_PART}(?:\.{_PART})*")


@dataclass(frozen=True)
class Override:
    """One parsed `--set`."""

    path: tuple[str, ...]
    value: Any


def lay_overrides(merged: Merged, overrides: Sequence[str], folder: Path) -> list[Problem]:
    """Put each override on top of `merged`; relative paths in them are relative to `folder`."""
    problems = []

    def locate(_path: KeyPath) -> Origin:
        return Origin(OVERRIDE, None, str(folder))

    for text in overrides:
        override = parse_override(text)
        if isinstance(override, Problem):
            problems.append(override)
        else:
            table: Any = override.value
            for key in reversed(override.path):
                table = {key: table}
            merged.lay(Layer(table, locate))
    return problems


def parse_override(text: str) -> Override | Problem:
    """Parse `a.b=value`: the value in TOML's syntax, or bare text."""
    name, equals, value = text.partition("=")
    if not equals:
        return Problem(text.strip(), OVERRIDE, None, "there is no = in it", SYNTAX)
    if _KEY.fullmatch(name) is None or name.count(".") > MAX_DEPTH:
        return Problem(name.strip(), OVERRIDE, None, "the part before = is not a key", SYNTAX)
    path: list[str] = []
    table: Any = tomllib.loads(f"{name} = 0")
    while isinstance(table, dict):
        key = next(iter(table))
        path.append(key)
        table = table[key]
    if path[0] == "extends":
        return Problem("extends", OVERRIDE, None, "it cannot be set here", "extends in the run file")
    value = value.strip()
    if not value:
        right = "a value; '' is an empty text, and without this --set the file's value or the default is used"
        return Problem(".".join(path), OVERRIDE, None, "there is nothing after =", right)
    try:
        return Override(tuple(path), _parse_value(value, tuple(path)))
    except ValueError as error:
        wrong = f"{value} is not valid TOML: {error}"
        return Problem(
            ".".join(path), OVERRIDE, None, wrong, 'a TOML value, such as 3e-4, "text" or ["--lr", "0.1"]'
        )
    except RecursionError:
        return Problem(".".join(path), OVERRIDE, None, "it is nested too deeply", SYNTAX)


def _parse_value(value: str, path: tuple[str, ...]) -> Any:
    """Parse `value` as TOML; keep it as text if it is none and does not begin like a text, a list or a
    table.
    """
    key = all_keys().get(path)
    wants_text = (key is not None and key.takes_text) or path[:2] == ("run", "env")
    try:
        table = tomllib.loads(f"value = {value}")
    except ValueError:
        if value[0] in "\"'[{" and not wants_text:
            raise
        return value
    if set(table) != {"value"}:  # it contains a line break
        return value
    parsed = table["value"]
    return value if wants_text and not isinstance(parsed, (str, list, dict)) else parsed


# Run file text with the overrides of `--set` written into it.


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
