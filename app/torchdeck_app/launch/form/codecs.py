"""Conversion between values of the file and input lines of the form."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torchdeck.config.keys import Key
from torchdeck.config.problems import shown
from torchdeck.config.toml.document import EditError, toml_value

_MEBI = 2**20
_GIBI = 2**30
_LONG = 10_000
_BITS = 64


class UnreadableError(ValueError):
    """The input is not a valid value; the message has the error and the expected format."""


@dataclass(frozen=True)
class Typed:
    """Entered value and its text in the file; empty: as TOML writes it."""

    value: Any
    literal: str = ""


@dataclass(frozen=True)
class Codec:
    """Codec that formats and parses the values of one key."""

    show: Callable[[Any], str]
    read: Callable[[str], Typed]
    """Raises UnreadableError."""


def codec_of(key: Key) -> Codec:
    """Return the codec of `key`."""
    if key.path == ("run", "args"):
        return ARGUMENTS
    if "tuple" in key.types or "list" in key.types:
        return Codec(_show_items, lambda text: _read_items(text, tuple(map(str, key.choices))))
    if key.types and set(key.types) <= {"str"}:
        return TEXT
    return SIZE if "size" in key.types else SCALAR


def _show_any(value: Any) -> str:
    """Format as TOML."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _BITS:
        return str(value)
    try:
        return toml_value(value) if isinstance(value, (str, dict, list)) else shown(value, _LONG)
    except EditError:
        return shown(value, _LONG)


def _show_text(value: Any) -> str:
    return value if isinstance(value, str) and "\n" not in value else _show_any(value)


def _read_text(text: str) -> Typed:
    """Return a text literally, unless it is in TOML quotes with more than a line could show."""
    if text[:1] == '"' and "\\" in text:
        parsed = _parsed(text)
        if parsed is not None and isinstance(parsed[0], str):
            return Typed(parsed[0])
    return Typed(text)


def _show_scalar(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < _LONG:
        return str(int(value))
    return _show_text(value)


def _read_scalar(text: str) -> Typed:
    """Return a number, true or false in TOML notation, or quoted text; other text is taken literally."""
    parsed = _parsed(text.strip())
    if parsed is None:
        return Typed(text.strip())
    return Typed(parsed[0]) if isinstance(parsed[0], str) else Typed(*parsed)


def _show_size(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value and value % _MEBI == 0:
        return f"{value // _GIBI}GiB" if value % _GIBI == 0 else f"{value // _MEBI}MiB"
    return _show_scalar(value)


def _show_arguments(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return shlex.join(value)
    return _show_any(value)


def _read_arguments(text: str) -> Typed:
    """Split as a shell would, without its expansions."""
    try:
        return Typed(shlex.split(text))
    except ValueError as error:
        raise UnreadableError("a quotation mark is not closed: add one at the end") from error


_ITEM = re.compile(r"\s*(\"(?:[^\"\\]|\\.)*\"|'[^']*'|(?:\[[^\]]*\]|[^,\[\]])*)\s*(,|$)")


def _show_items(value: Any) -> str:
    """Return `0.9, 0.999`; text is quoted only if it would be parsed as something else."""
    if isinstance(value, str):
        return value
    if not isinstance(value, (list, tuple)):
        return _show_any(value)
    return ", ".join(map(_show_item, value)) if value else "[]"


def _show_item(item: Any) -> str:
    if isinstance(item, str) and item and item == item.strip() and _read_items(item, ()).value == [item]:
        return item
    return _show_any(item)


def _read_items(text: str, words: tuple[str, ...]) -> Typed:
    """Parse comma-separated items, one of `words`, a range such as 1:2, or a TOML list."""
    text = text.strip()
    if text in words or re.fullmatch(r"[0-9]+:[0-9]+", text):
        return Typed(text)
    if text.startswith("["):
        parsed = _parsed(text)
        if parsed is not None and isinstance(parsed[0], list):
            return Typed(*parsed)
    items, at = [], 0
    while at < len(text):
        match = _ITEM.match(text, at)
        if match is None:
            raise UnreadableError("brackets or quotation marks do not match. Expected: a, b, c")
        if match.group(1).strip() or match.group(2):
            items.append(_read_scalar(match.group(1)).value)
        at = match.end()
    return Typed(items)


def _parsed(text: str) -> tuple[Any, str] | None:
    """Return the single TOML value in `text`, with the text; None if there is not exactly one."""
    try:  # in brackets, after which no comment can hide
        table = tomllib.loads(f"value = [{text}]")
    except (ValueError, RecursionError):
        return None
    items = table["value"] if len(table) == 1 else []
    return (items[0], text) if len(items) == 1 and not text.endswith(",") else None


TEXT = Codec(_show_text, _read_text)
SCALAR = Codec(_show_scalar, _read_scalar)
SIZE = Codec(_show_size, _read_scalar)
ARGUMENTS = Codec(_show_arguments, _read_arguments)
ANYTHING = Codec(_show_any, _read_scalar)
"""Codec of user-defined keys, whose type is unknown: text in quotes."""
