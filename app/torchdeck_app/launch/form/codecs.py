"""Between a value of the file and the text of a line in the form."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torchdeck.config.keys import Key
from torchdeck.config.problems import shown
from torchdeck.config.toml.toml_text import EditError, toml_value

_MEBI = 2**20
_GIBI = 2**30
_LONG = 10_000
_BITS = 64


class UnreadableError(ValueError):
    """A text that was typed is no value; the message says what is wrong and what would be right."""


@dataclass(frozen=True)
class Typed:
    """A value that was typed, and how it is to be written in the file; empty: as TOML writes it."""

    value: Any
    literal: str = ""


@dataclass(frozen=True)
class Codec:
    """How values of one key are shown on a line, and read from it."""

    show: Callable[[Any], str]
    read: Callable[[str], Typed]
    """Raises UnreadableError."""


def codec_of(key: Key) -> Codec:
    """The one for `key`."""
    if key.path == ("run", "args"):
        return ARGUMENTS
    if "tuple" in key.types or "list" in key.types:
        return Codec(_show_items, lambda text: _read_items(text, tuple(map(str, key.choices))))
    if key.types and set(key.types) <= {"str"}:
        return TEXT
    return SIZE if "size" in key.types else SCALAR


def _show_any(value: Any) -> str:
    """As TOML."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _BITS:
        return str(value)
    try:
        return toml_value(value) if isinstance(value, (str, dict, list)) else shown(value, _LONG)
    except EditError:
        return shown(value, _LONG)


def _show_text(value: Any) -> str:
    return value if isinstance(value, str) and "\n" not in value else _show_any(value)


def _read_text(text: str) -> Typed:
    """A text is taken as it stands, unless it is one in TOML's quotes with more than a line could show."""
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
    """A number, true or false as TOML has them, or text in quotes; text as it stands where it is none."""
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
    """As a shell would part them, without its expansions."""
    try:
        return Typed(shlex.split(text))
    except ValueError as error:
        raise UnreadableError("a quotation mark is not closed; right would be one at its end too") from error


_ITEM = re.compile(r"\s*(\"(?:[^\"\\]|\\.)*\"|'[^']*'|(?:\[[^\]]*\]|[^,\[\]])*)\s*(,|$)")


def _show_items(value: Any) -> str:
    """`0.9, 0.999`; text in quotes only where it would be read as something else."""
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
    """Items parted by commas, or one of `words`, or a range such as 1:2, or a list as TOML has it."""
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
            raise UnreadableError("its brackets or quotation marks do not match; right would be a, b, c")
        if match.group(1).strip() or match.group(2):
            items.append(_read_scalar(match.group(1)).value)
        at = match.end()
    return Typed(items)


def _parsed(text: str) -> tuple[Any, str] | None:
    """The value that TOML reads in `text`, with the text; None where it is not exactly one."""
    try:  # in brackets, behind which no comment can hide
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
"""For keys of the user's own, whose type nobody knows: text in quotes."""
