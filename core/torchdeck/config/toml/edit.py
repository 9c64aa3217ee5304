"""Edits of single values of a run file's text; every other byte of it stays.

The text is cut at the spans that `document.scan` finds, so that comments, order, quotes and blanks survive;
tomlkit writes the new value. (Its own insertion puts a key below the comment that introduces the next table.)
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from torchdeck.config.problems import dotted
from torchdeck.config.toml.document import Document, EditError, KeyPath, parse, scan, toml_path, toml_value
from torchdeck.config.toml.edit_positions import (
    block_of,
    inserted,
    line_end,
    line_start,
    new_block,
    newline_of,
    out_of_braces,
)

__all__ = ["EditError", "add_table", "remove_table", "remove_value", "rename_key", "set_value"]


def set_value(text: str, path: Sequence[str | int], value: Any, literal: str = "") -> str:
    """Return `text` with the key at `path` set to `value`, a plain value of TOML.

    An existing value is replaced in place. A new key goes below the last key of its table; a new table,
    to the end of the tables it belongs to. A number in the path selects one of several existing tables:
    ("cluster", "nodes", 0, "gpus").

    Args:
        text: the run file.
        path: from the root to the key.
        value: the new value.
        literal: how the value is to be written, if that matters: `3e-4` rather than `0.0003`.

    Raises:
        EditError: the text is not TOML, `literal` has another value, `path` leads through a value that is no
            table, or is a table.
    """
    keys = tuple(path)
    wanted = _parsed(text)
    before = _at(wanted, keys)
    _put(wanted, keys, value)
    document = scan(text)
    entry = document.entry(keys)
    written = literal or toml_value(value)
    if entry is None:
        edited = inserted(document, keys, written)
    elif isinstance(before, list) and isinstance(value, (list, tuple)) and not literal:
        edited = with_elements(document, keys, before, list(value))
    else:
        edited = text[: entry.value_start] + written + text[entry.value_end :]
    return _checked(edited, wanted, keys)


def remove_value(text: str, path: Sequence[str | int]) -> str:
    """Return `text` without the key at `path`; unchanged if unknown key.

    Raises:
        EditError: the text is not TOML, or the key is a table with a heading of its own.
    """
    keys = tuple(path)
    wanted = _parsed(text)
    table = _at(wanted, keys[:-1])
    if not isinstance(table, dict) or keys[-1] not in table:
        return text
    document = scan(text)
    entry = document.entry(keys)
    if entry is None:
        raise EditError(f"{dotted(keys)} is a table; remove its keys one by one")
    del table[keys[-1]]
    if entry.inline is not None:
        edited = out_of_braces(document, entry)
    else:
        edited = text[: line_start(text, entry.start)] + text[line_end(text, entry.value_end) :]
    return _checked(edited, wanted, keys, allow_empty=True)


def rename_key(text: str, path: Sequence[str | int], name: str) -> str:
    """Return `text` with the last key of `path` renamed to `name`, in the same position and with the same
    value.

    Raises:
        EditError: the text is not TOML, unknown key, it has a heading, or `name` exists already.
    """
    keys = tuple(path)
    wanted = _parsed(text)
    table, entry = _at(wanted, keys[:-1]), scan(text).entry(keys)
    if not isinstance(table, dict) or entry is None:
        raise EditError(f"there is no key {dotted(keys)}")
    if name in table:
        raise EditError(f"{dotted((*keys[:-1], name))} already exists")
    table[name] = table.pop(keys[-1])
    around = entry.header if entry.inline is None else entry.inline
    written = f"{toml_path((*keys[len(around) : -1], name))} = "
    return _checked(text[: entry.start] + written + text[entry.value_start :], wanted, keys)


def add_table(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return `text` with one more [[table]] of name `path`, below the existing ones.

    Raises:
        EditError: the text is not TOML, or `path` is not a list of tables.
    """
    keys = tuple(path)
    wanted = _parsed(text)
    before = _at(wanted, keys)
    if before is not None and not isinstance(before, list):
        raise EditError(f"{dotted(keys)} is no list of tables")
    document = scan(text)
    if document.entry(keys) is not None:
        return set_value(text, keys, [*(before or []), dict(values)])
    parent = wanted
    for key in keys[:-1]:
        parent = parent.setdefault(key, {})
    parent.setdefault(keys[-1], []).append(dict(values))
    newline = newline_of(text)
    lines = [f"[[{toml_path(keys)}]]", *(f"{toml_path((k,))} = {toml_value(v)}" for k, v in values.items())]
    edited = new_block(document, (*keys, ""), newline.join(lines))
    return _checked(edited, wanted, keys)


def remove_table(text: str, path: Sequence[str | int]) -> str:
    """Return `text` without the table at `path`, its heading and all that is under it.

    `path` is a [table], or one of many by a number at the end: ("cluster", "nodes", 0).

    Raises:
        EditError: the text is not TOML, or the table cannot be cut out alone.
    """
    keys = tuple(path)
    wanted = _parsed(text)
    parent = _at(wanted, keys[:-1])
    if _step(parent, keys[-1]) is None:
        return text
    document = scan(text)
    if isinstance(keys[-1], int) and document.entry(keys[:-1]) is not None:
        del parent[keys[-1]]
        return set_value(text, keys[:-1], list(parent))
    del parent[keys[-1]]
    if not parent and isinstance(keys[-1], int):  # the last of many: TOML cannot express none by headings
        del _at(wanted, keys[:-2])[keys[-2]]
    blocks = [block_of(document, header) for header in document.headers if header.path[: len(keys)] == keys]
    edited = text
    for start, end in reversed(blocks):
        edited = edited[:start] + edited[end:]
    return _checked(edited, wanted, keys, allow_empty=True)


def _parsed(text: str) -> dict[str, Any]:
    try:
        return parse(text)
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


def _at(root: Any, path: KeyPath) -> Any:
    """Return the value at `path`; None if there is none."""
    for key in path:
        root = _step(root, key)
    return root


def _step(value: Any, key: str | int) -> Any:
    """Return the value at `key` of a table or list; None if there is none."""
    if isinstance(value, dict):
        return value.get(key)
    inside = isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value)
    return value[key] if inside else None


def _checked(edited: str, wanted: dict[str, Any], path: KeyPath, *, allow_empty: bool = False) -> str:
    """Return `edited` after checking that it has the wanted values and nothing else."""
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
    """Return the table without empty tables: removing the last dotted key removes its table."""
    kept = {key: _without_empty(item) if isinstance(item, dict) else item for key, item in table.items()}
    return {key: item for key, item in kept.items() if item != {}}


def _plain(value: Any) -> Any:
    """Return a value that compares by content: types count, NaN equals NaN, tuples are lists."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return (type(value).__name__, repr(value))


# Edit of a list in a run file's text: elements that stay keep their position and their comments.

_TRAILING_COMMA = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*,")
_COMMENT = re.compile(r"[ \t\r]*(?:#[^\n]*)?\n")


def with_elements(document: Document, path: KeyPath, before: list[Any], after: list[Any]) -> str:
    """Return the text with `after` instead of `before` in the list at `path`."""
    text = document.text
    entry = document.entry(path)
    if entry is None:
        raise ValueError("there is no list")
    if not before or not after:
        return text[: entry.value_start] + toml_value(after) + text[entry.value_end :]
    spans = [document.elements[(*path, index)] for index in range(len(before))]
    old, new = [toml_value(item) for item in before], [toml_value(item) for item in after]
    first = _common(old, new)
    rest = _common(old[first:][::-1], new[first:][::-1])
    last, added = len(old) - rest, new[first : len(new) - rest]
    kept = min(last - first, len(added))
    if len(added) > kept:
        text = _inserted(text, spans, first + kept, added[kept:])
    elif last > first + kept:
        text = _cut(text, spans, first + kept, last)
    for index in reversed(range(first, first + kept)):
        start, end = spans[index]
        text = text[:start] + added[index - first] + text[end:]
    return text


def _common(one: list[str], other: list[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _inserted(text: str, spans: list[tuple[int, int]], at: int, items: list[str]) -> str:
    """Return the text with `items` before element `at`, separated like the existing elements."""
    start = spans[0][0]
    line = text.rfind("\n", 0, start) + 1
    comma = f",\n{text[line:start]}" if not text[line:start].strip() else ", "
    if len(spans) > 1 and "#" not in text[spans[0][1] : spans[1][0]]:
        comma = text[spans[0][1] : spans[1][0]]
    if at == 0:
        return text[:start] + "".join(item + comma for item in items) + text[start:]
    end = spans[at - 1][1]
    return text[:end] + "".join(comma + item for item in items) + text[end:]


def _cut(text: str, spans: list[tuple[int, int]], first: int, last: int) -> str:
    """Return the text without elements `first` to `last`, that one excluded."""
    if last < len(spans):
        return text[: spans[first][0]] + text[spans[last][0] :]
    start, end = spans[first - 1][1], spans[last - 1][1]
    if "#" not in text[start : spans[first][0]]:
        return text[:start] + text[end:]
    # the comment before it belongs to an element that stays, and so does the comma there
    comma = _TRAILING_COMMA.match(text, end)
    end = end if comma is None else comma.end()
    before = text[: spans[first][0]]
    comment = _COMMENT.match(text, end)
    if comment is not None and comment.group().endswith("\n"):
        return before.rstrip() + text[comment.end() - 1 :]
    return before + text[end:]
