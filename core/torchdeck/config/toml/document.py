"""Locations in a TOML text: the line of each key, and the span of each value.

tomllib returns values without locations; this scanner finds the locations. It is for texts that tomllib has
accepted: it finds the edges of keys and values and validates nothing.
"""

from __future__ import annotations

import bisect
import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

from torchdeck.contract.refusal import Refusal

KeyPath = tuple[str | int, ...]
"""Keys from the root to a value; an integer is an element of a list."""

MAX_DEPTH = 64
"""Most levels of tables and lists; without a limit, a line of dots would cost memory by its square."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRINGS = (
    re.compile(r'"""(?:\\.|[^\\"]|"(?!""))*"{3,5}', re.DOTALL),
    re.compile(r"'''(?:[^']|'(?!''))*'{3,5}"),
    re.compile(r'"(?:\\.|[^\\"\n])*"'),
    re.compile(r"'[^'\n]*'"),
)
_PLAIN = re.compile(r"[^,\]}#\r\n]*")
_BLANK = re.compile(r"[ \t]*")
_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")


@dataclass(frozen=True)
class Entry:
    """One `key = value`; `start` is the start of the key, the value is `text[value_start:value_end]`."""

    path: KeyPath
    header: KeyPath
    """Table of its [header]; () before the first."""
    inline: KeyPath | None
    """Innermost {…} or […] that contains it; None for an entry on a line of its own."""
    start: int
    value_start: int
    value_end: int


@dataclass(frozen=True)
class Header:
    """One `[table]` or `[[table]]`."""

    path: KeyPath
    start: int
    end: int
    """Offset after the closing bracket."""


@dataclass
class Document:
    """A TOML text with the locations in it."""

    text: str
    entries: list[Entry] = field(default_factory=list)
    headers: list[Header] = field(default_factory=list)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    """First line, counted from 1, of a table, key or element of a list."""
    inline_tables: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)
    """Spans of {…} values, braces included."""
    elements: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)
    """Spans of the elements of […] values."""

    def entry(self, path: KeyPath) -> Entry | None:
        """Return the `key = value` at `path`."""
        return next((entry for entry in self.entries if entry.path == path), None)


class TooDeepError(ValueError):
    """Tables or lists are nested deeper than `MAX_DEPTH`."""


def parse(text: str) -> dict[str, Any]:
    """Parse `text` as `tomllib.loads` does, but refuse what would take hours or all memory to read.

    Raises:
        TooDeepError: it is nested deeper than any of our files needs.
        TOMLDecodeError: it is not TOML.
        ValueError: a value in it cannot be represented.
    """
    # tomllib takes time and memory by the square of a key's dots, so depth is checked before it reads; the
    # scanner accepts all that it does, and neither of them reads what follows an error
    try:
        scan(text)
    except TooDeepError:
        raise
    except (ValueError, IndexError):
        pass  # tomllib has the better message
    return tomllib.loads(text)


def scan(text: str) -> Document:
    """Locate everything in `text`, which tomllib has accepted.

    Raises:
        TooDeepError: it is nested deeper than any run file needs.
    """
    return _Scanner(text).scan()


class _Scanner:
    """Scanner that goes through the text once; `at` is its position."""

    def __init__(self, text: str) -> None:
        self.document = Document(text)
        self.text = text
        self.at = 0
        self.header: KeyPath = ()
        self.arrays: dict[KeyPath, int] = {}
        self.newlines = [match.start() for match in re.finditer("\n", text)]

    def scan(self) -> Document:
        self._skip(_GAP)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                self._table()
            else:
                self._entry(self.header, None)
            self._skip(_GAP)
        return self.document

    def _skip(self, what: re.Pattern[str]) -> str:
        match = what.match(self.text, self.at)
        if match is None:
            raise ValueError(f"no valid TOML at offset {self.at}")
        self.at = match.end()
        return match.group()

    def _note(self, path: KeyPath, start: int) -> None:
        if len(path) > MAX_DEPTH:
            raise TooDeepError(f"nested deeper than {MAX_DEPTH} levels")
        line = bisect.bisect_left(self.newlines, start) + 1
        for length in range(1, len(path) + 1):
            self.document.lines.setdefault(path[:length], line)

    def _table(self) -> None:
        start = self.at
        brackets = 2 if self.text.startswith("[[", start) else 1
        self.at += brackets
        keys = self._keys()
        self.at += brackets
        path: KeyPath = ()
        for position, key in enumerate(keys):
            path += (key,)
            if brackets == 2 and position == len(keys) - 1:
                self.arrays[path] = self.arrays.get(path, 0) + 1
            if path in self.arrays:
                path += (self.arrays[path] - 1,)
        self.header = path
        self._note(path, start)
        self.document.headers.append(Header(path, start, self.at))

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._skip(_BLANK)
            if self.text[self.at] in "\"'":
                quoted = self._skip(_STRINGS[2] if self.text[self.at] == '"' else _STRINGS[3])
                keys.append(tomllib.loads(f"key = {quoted}")["key"] if "\\" in quoted else quoted[1:-1])
            else:
                keys.append(self._skip(_BARE_KEY))
            self._skip(_BLANK)
            if not self.text.startswith(".", self.at):
                return keys
            self.at += 1

    def _entry(self, parent: KeyPath, inline: KeyPath | None) -> None:
        start = self.at
        path = (*parent, *self._keys())
        self.at += 1  # the equals sign
        self._skip(_BLANK)
        self._note(path, start)
        value_start = self.at
        self._value(path)
        self.document.entries.append(Entry(path, self.header, inline, start, value_start, self.at))

    def _value(self, path: KeyPath) -> None:
        opening = self.text[self.at]
        if opening == "[":
            self._list(path)
        elif opening == "{":
            self._inline_table(path)
        elif opening in "\"'":
            long = self.text[self.at : self.at + 3] == opening * 3
            self._skip(_STRINGS[(0 if long else 2) + (opening == "'")])
        else:
            plain = self._skip(_PLAIN)
            self.at -= len(plain) - len(plain.rstrip(" \t"))

    def _list(self, path: KeyPath) -> None:
        self.at += 1
        self._skip(_GAP)
        index = 0
        while self.text[self.at] != "]":
            self._note((*path, index), self.at)
            start = self.at
            self._value((*path, index))
            self.document.elements[(*path, index)] = (start, self.at)
            index += 1
            self._skip(_GAP)
            if self.text[self.at] == ",":
                self.at += 1
                self._skip(_GAP)
            elif self.text[self.at] != "]":  # otherwise an invalid text could loop for ever
                raise ValueError(f"no valid TOML at offset {self.at}")
        self.at += 1

    def _inline_table(self, path: KeyPath) -> None:
        start = self.at
        self.at += 1
        self._skip(_GAP)
        while self.text[self.at] != "}":
            self._entry(path, path)
            self._skip(_GAP)
            if self.text[self.at] == ",":
                self.at += 1
                self._skip(_GAP)
        self.at += 1
        self.document.inline_tables[path] = (start, self.at)


# Values and keys in TOML syntax, on one line.


class EditError(Refusal, ValueError):
    """A text cannot be changed as requested: it is not TOML, or the key is not allowed there."""

    page = "reference/run-toml"

    is_usage = True


def toml_value(value: Any) -> str:
    """Return a value on one line of TOML.

    Raises:
        EditError: TOML has no such value.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    try:
        text: str = tomlkit.item(value).as_string()
    except (TOMLKitError, TypeError, ValueError) as error:
        raise EditError(f"{value!r} cannot be written as TOML") from error
    return text


def toml_key(key: str) -> str:
    """Return a key, quoted if necessary."""
    import tomlkit

    return tomlkit.key(key).as_string()


def toml_path(path: KeyPath) -> str:
    """Return a dotted key."""
    return ".".join(toml_key(str(key)) for key in path)
