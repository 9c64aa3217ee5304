"""Values given on the command line: `--set training.lr=3e-4`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.config.keys import all_keys
from torchdeck.config.layers import Layer, Merged, Origin
from torchdeck.config.problems import OVERRIDE, Problem
from torchdeck.config.toml.document import MAX_DEPTH, KeyPath

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
        return Problem(name.strip(), OVERRIDE, None, "what stands before = is not a key", SYNTAX)
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
        right = "a value; '' is an empty text, and without this --set the file's value or the default holds"
        return Problem(".".join(path), OVERRIDE, None, "nothing stands behind =", right)
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
