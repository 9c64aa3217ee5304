"""Settings of runs in a few words: what was said at the start, and in what runs of one program differ.

Standard library only: the list of runs needs them before anything else is imported.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchdeck.contract.bounded_file import read_bounded
from torchdeck.contract.layout import RunLayout

Settings = Mapping[str, str]
"""Dotted key of run.toml → its value as text."""

_LARGEST = 256 << 10
"""Bytes of a run file; settings of a larger one are not read."""
_LONGEST = 40
"""Characters of a value."""
_SAYS_NOTHING = frozenset({"name", "tags", "notes", "extends"})
"""Keys that do not change what is computed."""


def run_settings(layout: RunLayout, overrides: Sequence[str] = ()) -> Settings:
    """Return what a run's own file and its overrides set; nothing if they cannot be read.

    Args:
        layout: layout of the run.
        overrides: `key=value` words of its start; of two for one key the later one holds.
    """
    try:
        table = tomllib.loads(read_bounded(layout.config, _LARGEST).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    found = {key: _text(value) for key, value in _leaves(table)}
    for word in overrides:
        key, given, value = word.partition("=")
        if given:
            found[key.strip()] = _text(_value(value.strip()))
    return {key: value for key, value in found.items() if key not in _SAYS_NOTHING}


def differing(runs: Mapping[str, Settings]) -> dict[str, str]:
    """Return for each run what it sets that not all of `runs` do: `lr 0.001, steps 60`; empty for none.

    Args:
        runs: id → settings of runs of one program.
    """
    values: dict[str, set[str | None]] = defaultdict(set)
    for key in {key for settings in runs.values() for key in settings}:
        values[key] = {settings.get(key) for settings in runs.values()}
    short = _short_names([key for key, found in values.items() if len(found) > 1])
    return {
        run: ", ".join(f"{short[key]} {value}" for key, value in settings.items() if key in short)
        for run, settings in runs.items()
    }


def _short_names(keys: Sequence[str]) -> dict[str, str]:
    """Return the last part of each key, or the whole key if two have the same last part."""
    ends: dict[str, list[str]] = defaultdict(list)
    for key in keys:
        ends[key.rpartition(".")[2]].append(key)
    return {key: end if len(same) == 1 else key for end, same in ends.items() for key in same}


def _leaves(table: Mapping[str, Any], parent: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        path = f"{parent}.{key}" if parent else key
        if isinstance(value, Mapping):
            yield from _leaves(value, path)
        else:
            yield path, value


def _value(text: str) -> Any:
    """Return a value as TOML, or the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    except ValueError:  # a number of thousands of digits
        return "…"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
