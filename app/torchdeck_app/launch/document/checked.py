"""What a run file's text says: the config, or everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchdeck.config.loader import UNNAMED, Draft, LoadedConfig, draft_config
from torchdeck.config.problems import ConfigError, Problem
from torchdeck.config.toml.document import Document, KeyPath, parse, scan


@dataclass(frozen=True)
class CheckedDocument:
    """One state of the document, checked; nothing in it changes any more."""

    version: int
    """Of the document's text: higher is newer."""
    text: str
    path: Path | None
    """The file it belongs to; None for one without a name."""
    folder: Path
    """What relative paths in it are relative to."""
    name: str
    """What problems of this text call its file; another name is that of a file it extends."""
    table: Mapping[str, Any] | None = None
    """What the text says, as tomllib reads it; None where it is not TOML."""
    loaded: LoadedConfig | None = None
    """The config, where it is right."""
    problems: tuple[Problem, ...] = ()
    written: Mapping[str, Any] = field(default_factory=dict)
    """What this text and the files it extends say together, without defaults; empty where that is unknown."""
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    """On which line of the text each key stands."""
    literals: Mapping[KeyPath, str] = field(default_factory=dict)
    """How each value is written."""

    def is_own(self, problem: Problem) -> bool:
        """Whether it stands in this text, and not in a file that it extends."""
        return problem.file == self.name


@dataclass(frozen=True)
class CheckRequest:
    """A text to check."""

    version: int
    text: str
    path: Path | None
    folder: Path


def check_document(request: CheckRequest) -> CheckedDocument:
    """Read and check everything; takes long where files that it extends are slow to read."""
    name = UNNAMED if request.path is None else request.path.name
    table, places = _parsed(request.text)
    draft: Draft | None = None
    loaded: LoadedConfig | None = None
    problems: tuple[Problem, ...] = ()
    try:
        draft = draft_config(request.path or request.folder / UNNAMED, text=request.text, name=name)
        loaded = draft.config()
    except ConfigError as error:
        problems = error.problems
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
    )


def _parsed(text: str) -> tuple[Mapping[str, Any] | None, Document]:
    try:
        return parse(text), scan(text)
    except (ValueError, RecursionError):
        return None, Document(text)
