"""Messages from the log reader thread to the GUI thread."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from torchdeck.runs.logs.merged import STREAMS, LogLine
from torchdeck_app.theme.palette import ColourName

_LEVELS: tuple[tuple[ColourName, re.Pattern[str]], ...] = (
    (
        "bad",
        re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b|^Traceback |^(?:\w+\.)*\w*(?:Error|Exception)\b(?::|$)"),
    ),
    ("warn", re.compile(r"\bWARN(?:ING)?\b|Warning:")),
    ("quiet", re.compile(r"\b(?:DEBUG|TRACE)\b")),
)
_HEAD = 400
"""Letters of a line checked for its level: a line may be very long and is checked on each repaint."""


@dataclass(frozen=True)
class Choice:
    """Filter of the shown lines; None: all."""

    rank: int | None = None
    node: str = ""
    """Show all ranks of this node; empty: `rank` applies."""
    attempt: int | None = None
    streams: tuple[str, ...] = STREAMS


@dataclass(frozen=True)
class Search:
    """Search term and its options."""

    pattern: str = ""
    match_case: bool = False
    only_matches: bool = False
    """Whether to hide lines without a match."""


@dataclass(frozen=True)
class Found:
    """Search result so far."""

    search: Search
    count: int = 0
    at: int | None = None
    """Index of the current match."""
    is_over: bool = True
    is_cut: bool = False
    """Whether there are more matches than stored."""
    problem: str = ""
    """Why the search is not possible."""


@dataclass(frozen=True)
class LogPage:
    """Range of lines, and the total count."""

    choice: Choice
    search: Search
    first: int
    """Row of the first of `lines` among the shown rows."""
    lines: tuple[LogLine, ...]
    total: int
    """Number of shown rows."""
    ranks: tuple[int, ...] = ()
    attempts: tuple[int, ...] = ()
    is_counting: bool = False
    """Whether more of the files is being read."""
    problem: str = ""
    """Why a file cannot be read."""
    nodes: Mapping[int, str] = field(default_factory=dict)
    """Node of each rank if there are several nodes."""
    node_names: tuple[str, ...] = ()
    """Names of the run's nodes if there are several."""

    @property
    def is_filtered(self) -> bool:
        """Whether only lines with a match are shown."""
        return self.search.only_matches and bool(self.search.pattern)

    @property
    def rows_of(self) -> tuple[Choice, Search | None]:
        """Return the state in which a row number identifies the same line."""
        return self.choice, self.search if self.is_filtered else None


def level(text: str) -> ColourName:
    """Return the palette's colour name for a line: `bad`, `warn`, `quiet` or `text`."""
    text = text[:_HEAD]
    return next((name for name, pattern in _LEVELS if pattern.search(text)), "text")
