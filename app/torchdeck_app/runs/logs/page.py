"""What the thread that reads logs tells the GUI thread."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from torchdeck.runs.logs.merged import STREAMS, LogLine

_LEVELS = (
    (
        "bad",
        re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b|^Traceback |^(?:\w+\.)*\w*(?:Error|Exception)\b(?::|$)"),
    ),
    ("warn", re.compile(r"\bWARN(?:ING)?\b|Warning:")),
    ("quiet", re.compile(r"\b(?:DEBUG|TRACE)\b")),
)
_HEAD = 400
"""Letters of a line that say its level: a line may be very long, and is looked at with each repaint."""


@dataclass(frozen=True)
class Choice:
    """Which lines are shown; None: all."""

    rank: int | None = None
    node: str = ""
    """All ranks of a node; empty: `rank` counts."""
    attempt: int | None = None
    streams: tuple[str, ...] = STREAMS


@dataclass(frozen=True)
class Search:
    """What is looked for."""

    pattern: str = ""
    match_case: bool = False
    only_matches: bool = False
    """Lines without a match are not shown."""


@dataclass(frozen=True)
class Found:
    """What a search has found so far."""

    search: Search
    count: int = 0
    at: int | None = None
    """Number of the match that is stood on, from 0."""
    is_over: bool = True
    is_cut: bool = False
    """There are more than are kept."""
    problem: str = ""
    """Why nothing can be looked for."""


@dataclass(frozen=True)
class LogPage:
    """Some lines, and how many there are."""

    choice: Choice
    search: Search
    first: int
    """Row of the first of `lines` in what is shown."""
    lines: tuple[LogLine, ...]
    total: int
    """Rows of what is shown."""
    ranks: tuple[int, ...] = ()
    attempts: tuple[int, ...] = ()
    is_counting: bool = False
    """More of the files is being read."""
    problem: str = ""
    """Why a file cannot be read."""
    nodes: Mapping[int, str] = field(default_factory=dict)
    """Which node each rank is on, where there are several."""
    node_names: tuple[str, ...] = ()
    """Of the run's nodes, where there are several."""

    @property
    def is_filtered(self) -> bool:
        """Only lines with a match are shown."""
        return self.search.only_matches and bool(self.search.pattern)

    @property
    def rows_of(self) -> tuple[Choice, Search | None]:
        """What makes a row number mean the same line."""
        return self.choice, self.search if self.is_filtered else None


def level(text: str) -> str:
    """Name of the palette's colour for a line: `bad`, `warn`, `quiet` or `text`."""
    text = text[:_HEAD]
    return next((name for name, pattern in _LEVELS if pattern.search(text)), "text")
