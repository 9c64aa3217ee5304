"""Content of a run file's text: the config, or all its problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchdeck.config.keys import Key
from torchdeck.config.loader import UNNAMED, Draft, LoadedConfig, draft_config
from torchdeck.config.problems import ConfigError, Problem
from torchdeck.config.remedies import Remedy, remedies_of
from torchdeck.config.toml.document import Document, KeyPath, parse, scan
from torchdeck.config.values.numbers import parse_rate, parse_size


@dataclass(frozen=True)
class CheckedDocument:
    """Checked state of the document; immutable."""

    version: int
    """Version of the document's text: higher is newer."""
    text: str
    path: Path | None
    """File of the document; None for an unnamed one."""
    folder: Path
    """Base of relative paths."""
    name: str
    """File name in problems of this text; another name is that of a file it extends."""
    table: Mapping[str, Any] | None = None
    """Content of the text as read by tomllib; None if it is not TOML."""
    loaded: LoadedConfig | None = None
    """Config, if it is valid."""
    problems: tuple[Problem, ...] = ()
    written: Mapping[str, Any] = field(default_factory=dict)
    """Combined content of this text and the files it extends, without defaults; empty if unknown."""
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    """Line of each key in the text."""
    literals: Mapping[KeyPath, str] = field(default_factory=dict)
    """Source text of each value."""
    remedies: Mapping[Problem, Remedy] = field(default_factory=dict)
    """Changes of the text that solve its problems."""

    def line_of(self, path: KeyPath) -> int | None:
        """Return the line of a key, else that of what contains it; None if neither is in the text."""
        tables = (path[:length] for length in range(len(path), 0, -1))
        return next((self.lines[table] for table in tables if table in self.lines), None)

    def key_at(self, line: int) -> KeyPath:
        """Return the key whose value or table `line`, from 1, belongs to; () above the first."""
        above = ((at, len(path), path) for path, at in self.lines.items() if at <= line)
        return max(above, key=lambda found: found[:2], default=(0, 0, ()))[2]

    def is_own(self, problem: Problem) -> bool:
        """Return whether the problem is in this text, and not in a file that it extends."""
        return problem.file == self.name


@dataclass(frozen=True)
class CheckRequest:
    """Text to check."""

    version: int
    text: str
    path: Path | None
    folder: Path


def check_document(request: CheckRequest) -> CheckedDocument:
    """Read and check everything; slow if files that it extends are slow to read."""
    name = UNNAMED if request.path is None else request.path.name
    table, places = _parsed(request.text)
    draft: Draft | None = None
    loaded: LoadedConfig | None = None
    problems: tuple[Problem, ...] = ()
    at = request.path or request.folder / UNNAMED
    try:
        draft = draft_config(at, text=request.text, name=name)
        loaded = draft.config()
    except ConfigError as error:
        problems = error.problems
    own = [problem for problem in problems if problem.file == name and problem.path]
    return CheckedDocument(
        request.version,
        request.text,
        request.path,
        request.folder,
        name,
        table,
        loaded,
        problems,
        draft.merged.table if draft is not None else (table or {}),
        places.lines,
        {entry.path: places.text[entry.value_start : entry.value_end] for entry in places.entries},
        remedies_of(own, request.text, lambda text: _problems_of(at, text, name)),
    )


def _problems_of(path: Path, text: str, name: str) -> tuple[Problem, ...]:
    try:
        draft_config(path, text=text, name=name).config()
    except ConfigError as error:
        return error.problems
    return ()


def _parsed(text: str) -> tuple[Mapping[str, Any] | None, Document]:
    try:
        return parse(text), scan(text)
    except (ValueError, RecursionError):
        return None, Document(text)


# Equality of a key's values.


def plain(key: Key, value: Any) -> Any:
    """Return a size in bytes, as in defaults."""
    if "size" not in key.types:
        return value
    try:
        return parse_rate(value) if key.unit == "bytes/s" else parse_size(value)
    except ValueError:
        return value


def same_value(one: Any, other: Any) -> bool:
    """Return whether two file values are equal: true is not 1, a tuple is a list, 1 is 1.0."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same_value, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
