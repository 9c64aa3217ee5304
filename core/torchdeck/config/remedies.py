"""Changes that solve a problem of a run file: the nearest value that works, or what the problem itself names.

Pure: a change is tried on the text, and offered only if the problem is gone and no other has come.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchdeck.config.keys import Key, all_keys
from torchdeck.config.problems import Problem, dotted, shown, undotted
from torchdeck.config.spelling import meant_by, nearest
from torchdeck.config.toml.document import KeyPath, parse
from torchdeck.config.toml.edit import EditError, remove_table, remove_value, rename_key, set_value

UNKNOWN = "unknown key"
"""Error of a key that the schema does not have."""
MOST_TRIED = 3
"""Most problems of a file for which changes are tried."""
_LITERAL = r"""("[^"]*"|\[[^\]]*\]|true|false|[0-9][0-9.e+_-]*)"""
_SETTING = re.compile(rf"(?:^|\bor |, )([A-Za-z_][\w.]*) = {_LITERAL}")
_VALUE = re.compile(rf"^{_LITERAL}")
_NOT = re.compile(r"(?:^|\bor )no \[?([A-Za-z_][\w.]*)\]?")
_LIMIT = re.compile(r"^at (?:most|least) ([0-9]+)\b")
_SUCH_AS = re.compile(rf"such as {_LITERAL}")
_BOOLS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


@dataclass(frozen=True)
class Remedy:
    """One change of a run file."""

    label: str
    """The change as an order: `Set microbatch = 8`."""
    path: KeyPath
    value: Any = None
    """New value; None: the key is removed, or renamed."""
    name: str = ""
    """New last part of `path`, if it is renamed."""
    moved_from: KeyPath = ()
    """Key that goes as `path` comes."""

    def apply(self, text: str) -> str:
        """Return the changed text.

        Raises:
            EditError: the text does not allow it.
        """
        if self.name:
            return rename_key(text, self.path, self.name)
        if self.moved_from:
            text = _removed(text, self.moved_from)
        return _removed(text, self.path) if self.value is None else set_value(text, self.path, self.value)


def candidates(problem: Problem, table: Mapping[str, Any]) -> Iterator[Remedy]:
    """Yield changes that may solve `problem`, the nearest to what is written first.

    Args:
        problem: a problem at a key.
        table: the content of the file.
    """
    path = undotted(problem.path)
    run = table.get("run")
    recipe = run.get("recipe") if isinstance(run, Mapping) else None
    keys = all_keys(recipe if isinstance(recipe, str) else None)
    names = tuple(step for step in path if isinstance(step, str))
    value = _at(table, path)
    if problem.wrong == UNKNOWN:
        yield from _renamed(path, names, value, recipe if isinstance(recipe, str) else None)
    key = keys.get(names)
    if key is not None and value is not None and not isinstance(value, dict):
        yield from (_setting(path, near) for near in _near(key, value))
    yield from _named(problem.right, path, keys)
    if value is not None and path:
        label = "Remove" if key is None or key.section is not None else "Reset"
        yield Remedy(f"{label} {_short(path)}", path)


def remedy_of(
    problem: Problem, text: str, check: Callable[[str], Sequence[Problem]] | None = None
) -> Remedy | None:
    """Return the first change that works; None if there is none.

    Args:
        problem: the problem.
        text: the run file.
        check: returns the problems of a text; without it a change is taken if it can be written.
    """
    try:
        table = parse(text)
    except (ValueError, RecursionError):
        return None
    before = None if check is None else len(check(text))
    for remedy in candidates(problem, table):
        try:
            changed = remedy.apply(text)
        except EditError:
            continue
        if changed == text:
            continue
        if check is None or before is None:
            return remedy
        left = check(changed)
        if len(left) < before and all((p.path, p.wrong) != (problem.path, problem.wrong) for p in left):
            return remedy
    return None


def _renamed(path: KeyPath, names: tuple[str, ...], value: Any, recipe: str | None) -> Iterator[Remedy]:
    for meant in meant_by(names, recipe):
        if meant[:-1] == path[:-1]:
            yield Remedy(f"Rename to {meant[-1]}", path, name=meant[-1])
        elif value is not None:
            yield Remedy(f"Move to [{dotted(meant[:-1])}]", meant, value, moved_from=path)


def _near(key: Key, value: Any) -> Iterator[Any]:
    """Yield values of the key that are like `value`."""
    words = [choice for choice in key.choices if isinstance(choice, str)]
    if isinstance(value, str) and words:
        yield from nearest(value, words)
    if isinstance(value, str) and "bool" in key.types and value.lower() in _BOOLS:
        yield _BOOLS[value.lower()]
    number = _number(value)
    if number is not None and {"int", "float"} & set(key.types):
        least, most = key.bounds
        clamped = number if least is None else max(least, number)
        clamped = clamped if most is None else min(most, clamped)
        yield round(clamped) if "float" not in key.types else clamped
    if key.types == ("str",) and isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)
    if "list" in key.types and isinstance(value, (str, int)) and not isinstance(value, bool):
        yield [value]


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value if abs(value) < 2**63 else None  # NaN, too
    if not isinstance(value, str):
        return None
    try:
        found = tomllib.loads(f"n = {value.strip()}")["n"]
    except (tomllib.TOMLDecodeError, ValueError):
        return None
    return _number(found) if isinstance(found, (int, float)) else None


def remedies_of(
    problems: Sequence[Problem], text: str, check: Callable[[str], Sequence[Problem]] | None = None
) -> dict[Problem, Remedy]:
    """Return a change for each problem that one solves, of the first `MOST_TRIED`; see `remedy_of`."""
    tried = ((problem, remedy_of(problem, text, check)) for problem in problems[:MOST_TRIED])
    return {problem: remedy for problem, remedy in tried if remedy is not None}


def _named(right: str, path: KeyPath, keys: Mapping[tuple[str, ...], Key]) -> Iterator[Remedy]:
    """Yield the changes that the problem's own words name."""
    for pattern in (_VALUE, _LIMIT):
        found = pattern.search(right)
        if found is not None:
            yield _setting(path, _value(found[1]))
    for found in _SETTING.finditer(right):
        target = _resolved(found[1], path, keys)
        if target is not None:
            yield _setting(target, _value(found[2]))
    for found in _NOT.finditer(right):
        target = _resolved(found[1], path, keys)
        if target is not None:
            yield Remedy(f"Remove {_short(target)}", target)
    found = _SUCH_AS.search(right)
    if found is not None:
        yield _setting(path, _value(found[1]))


def _resolved(name: str, path: KeyPath, keys: Mapping[tuple[str, ...], Key]) -> KeyPath | None:
    """Return the key that `name` means in a sentence about the key at `path`."""
    parts = tuple(name.rstrip(".").split("."))
    tables = [path[:length] for length in range(len(path), -1, -1)]
    for target in ((*table, *parts) for table in tables):
        if tuple(step for step in target if isinstance(step, str)) in keys:
            return target
    return None


def _setting(path: KeyPath, value: Any) -> Remedy:
    return Remedy(f"Set {_short(path)} = {shown(value, 40)}", path, value)


def _short(path: KeyPath) -> str:
    """Return the last part of a key, or its element: `devices[0]`."""
    last = next((index for index in range(len(path) - 1, -1, -1) if isinstance(path[index], str)), 0)
    return dotted(path[last:])


def _value(literal: str) -> Any:
    try:
        return tomllib.loads(f"v = {literal}")["v"]
    except tomllib.TOMLDecodeError:
        return literal


def _removed(text: str, path: KeyPath) -> str:
    if path and isinstance(path[-1], int):
        raise EditError("one element is not removed")
    try:
        return remove_value(text, path)
    except EditError:
        return remove_table(text, path)


def _at(table: Any, path: KeyPath) -> Any:
    for key in path:
        inside = isinstance(table, list) and isinstance(key, int) and 0 <= key < len(table)
        if not inside and not (isinstance(table, dict) and key in table):
            return None
        table = table[key]
    return table
