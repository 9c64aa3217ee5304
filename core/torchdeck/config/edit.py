"""Changing single values of a run file's text; every other byte of it stays.

The text is cut at the spans `document.scan` finds, so that comments, order, quotes and blanks survive;
tomlkit writes the new value. (Its own insertion puts a key below the comment that introduces the next table.)
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from torchdeck.config.document import Document, Entry, KeyPath, scan
from torchdeck.config.problems import dotted


class EditError(ValueError):
    """A text cannot be changed as asked: it is not TOML, or the key cannot stand where it should."""


def set_value(text: str, path: Sequence[str | int], value: Any) -> str:
    """`text` with the key at `path` set to `value`, a plain value of TOML.

    An existing value is replaced in place. A new key goes below the last key of its table; a new table,
    to the end of the tables it belongs to. A number in the path is one of many tables that are there:
    ("cluster", "nodes", 0, "gpus").

    Raises:
        EditError: the text is not TOML, `path` leads through a value that is no table, or is a table.
    """
    keys = tuple(path)
    wanted = _parsed(text)
    _put(wanted, keys, value)
    document = scan(text)
    entry = next((entry for entry in document.entries if entry.path == keys), None)
    written = _toml(value)
    if entry is not None:
        edited = text[: entry.value_start] + written + text[entry.value_end :]
    else:
        edited = _insert(document, keys, written)
    return _checked(edited, wanted, keys)


def remove_value(text: str, path: Sequence[str | int]) -> str:
    """`text` without the key at `path`, which has a line of its own; unchanged when there is no such key.

    Raises:
        EditError: the text is not TOML, or the key stands inside { } or is a table.
    """
    keys = tuple(path)
    wanted = _parsed(text)
    table: Any = wanted
    for key in keys[:-1]:
        table = _step(table, key)
    if not isinstance(table, dict) or keys[-1] not in table:
        return text
    document = scan(text)
    entry = next((entry for entry in document.entries if entry.path == keys), None)
    if entry is None or entry.inline is not None:
        raise EditError(f"{dotted(keys)} has no line of its own to remove")
    del table[keys[-1]]
    edited = text[: _line_start(text, entry.start)] + text[_line_end(text, entry.value_end) :]
    return _checked(edited, wanted, keys, allow_empty=True)


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise EditError(f"the text is not valid TOML: {error}") from error


def _put(root: dict[str, Any], path: KeyPath, value: Any) -> None:
    if not path:
        raise EditError("there is no key to set: the path is empty")
    table: Any = root
    for length, key in enumerate(path[:-1], 1):
        if isinstance(table, dict) and isinstance(key, str) and key not in table:
            table[key] = {}
        table = _step(table, key)
        if not isinstance(table, dict) and not (isinstance(table, list) and isinstance(path[length], int)):
            raise EditError(f"{dotted(path[:length])} is no table")
    if not isinstance(table, dict) or not isinstance(path[-1], str):
        raise EditError(f"{dotted(path)} is no key of a table")
    if isinstance(table.get(path[-1]), dict) and not isinstance(value, dict):
        raise EditError(f"{dotted(path)} is a table; set its keys one by one")
    table[path[-1]] = value


def _step(value: Any, key: str | int) -> Any:
    """What stands at `key` of a table or list; None where nothing does."""
    if isinstance(value, dict):
        return value.get(key)
    inside = isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value)
    return value[key] if inside else None


def _toml(value: Any) -> str:
    """A value on one line of TOML."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    try:
        text: str = tomlkit.item(value).as_string()
    except (TOMLKitError, TypeError, ValueError) as error:
        raise EditError(f"{value!r} cannot be written as TOML") from error
    return text


def _key(key: str) -> str:
    import tomlkit

    return tomlkit.key(key).as_string()


def _dotted(path: KeyPath) -> str:
    return ".".join(_key(str(key)) for key in path)


def _insert(document: Document, path: KeyPath, written: str) -> str:
    """The text with a key that is not in it yet."""
    text = document.text
    newline = "\r\n" if "\r\n" in text else "\n"
    for length in range(len(path) - 1, -1, -1):
        table, rest = path[:length], path[length:]
        if table in document.inline_tables:
            return _into_braces(document, table, f"{_dotted(rest)} = {written}")
        dotted = [entry for entry in document.entries if _opens(entry, table)]
        if dotted:  # a table that dotted keys opened: TOML wants the others there too
            name = _dotted(path[len(dotted[-1].header) :])
            return _below(text, dotted[-1], f"{name} = {written}", newline)
        header = next((header for header in document.headers if header.path == table), None)
        if length == len(path) - 1 and (header is not None or not table):
            own = [entry for entry in document.entries if entry.header == table and entry.inline is None]
            line = f"{_dotted(rest)} = {written}"
            if own:
                return _below(text, own[-1], line, newline)
            return _at_line(text, header.end, line, newline) if header else _on_top(document, line, newline)
    return _new_table(document, path, written, newline)


def _opens(entry: Entry, table: KeyPath) -> bool:
    """Whether the entry's dotted key goes through `table`."""
    inside = entry.inline is None and len(entry.header) < len(table) < len(entry.path)
    return inside and entry.path[: len(table)] == table


def _into_braces(document: Document, table: KeyPath, pair: str) -> str:
    text = document.text
    start, end = document.inline_tables[table]
    inside = [entry for entry in document.entries if entry.inline == table]
    if not inside:
        return f"{text[:start]}{{{pair}}}{text[end:]}"
    at = max(entry.value_end for entry in inside)
    return f"{text[:at]}, {pair}{text[at:]}"


def _below(text: str, entry: Entry, line: str, newline: str) -> str:
    start = _line_start(text, entry.start)
    indent = text[start : entry.start]
    return _at_line(text, entry.value_end, indent + line, newline)


def _at_line(text: str, offset: int, line: str, newline: str) -> str:
    """The text with `line` below the line on which `offset` is."""
    at = _line_end(text, offset)
    before = text[:at]
    if before and not before.endswith("\n"):
        before += newline
    return before + line + newline + text[at:]


def _on_top(document: Document, line: str, newline: str) -> str:
    """The text with a first key before any table: above the first table and the comment introducing it."""
    text = document.text
    if not document.headers:
        return _at_line(text, len(text), line, newline)
    at = _line_start(text, document.headers[0].start)
    while at > 0:
        above = _line_start(text, at - 1)
        if not text[above:at].lstrip(" \t").startswith("#"):
            break
        at = above
    return text[:at] + line + newline + newline + text[at:]


def _new_table(document: Document, path: KeyPath, written: str, newline: str) -> str:
    text = document.text
    block = f"[{_dotted(path[:-1])}]{newline}{_dotted(path[-1:])} = {written}"
    at = len(text)
    for length in range(len(path) - 1, 0, -1):
        related = [header for header in document.headers if header.path[:length] == path[:length]]
        if related:
            own = [entry.value_end for entry in document.entries if entry.header == related[-1].path]
            at = _line_end(text, max([related[-1].end, *own]))
            break
    before = text[:at]
    if before and not before.endswith("\n"):
        before += newline
    gap = newline if before else ""
    return before + gap + block + newline + text[at:]


def _line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def _line_end(text: str, offset: int) -> int:
    """Just behind the line break of the line on which `offset` is."""
    end = text.find("\n", offset)
    return len(text) if end < 0 else end + 1


def _checked(edited: str, wanted: dict[str, Any], path: KeyPath, *, allow_empty: bool = False) -> str:
    """`edited`, once it is sure to say what was wanted and nothing else."""
    try:
        got = tomllib.loads(edited)
    except ValueError as error:
        raise EditError(f"{dotted(path)} cannot be written into this file: {error}") from error
    if allow_empty:
        got, wanted = _without_empty(got), _without_empty(wanted)
    if _plain(got) != _plain(wanted):
        raise EditError(f"{dotted(path)} cannot be written into this file without changing other values")
    return edited


def _without_empty(table: dict[str, Any]) -> dict[str, Any]:
    """The table without tables that are empty: removing the last dotted key removes its table."""
    kept = {key: _without_empty(item) if isinstance(item, dict) else item for key, item in table.items()}
    return {key: item for key, item in kept.items() if item != {}}


def _plain(value: Any) -> Any:
    """A value that compares by content: types count, NaN equals NaN, tuples are lists."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return (type(value).__name__, repr(value))
