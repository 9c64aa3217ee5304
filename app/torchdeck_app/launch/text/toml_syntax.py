"""Tokens on a line of TOML, for highlighting; works with incomplete text too."""

from __future__ import annotations

import re
from enum import Enum, IntEnum
from typing import NamedTuple


class Kind(Enum):
    """Kind of a token."""

    COMMENT = "comment"
    TABLE = "table"
    KEY = "key"
    STRING = "string"
    NUMBER = "number"
    CONSTANT = "constant"


class State(IntEnum):
    """Multi-line state at the start of a line."""

    PLAIN = 0
    BASIC = 1
    """String that began with three "."""
    LITERAL = 2
    """String that began with three '."""


class Token(NamedTuple):
    """Coloured range of a line."""

    start: int
    end: int
    kind: Kind


_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^\\"])*"|'[^']*')"""
_NAMES = rf"{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*"
HEADER = re.compile(rf"[ \t]*(\[\[?)[ \t]*({_NAMES})?[ \t]*(\]\]?)?[ \t]*(?=#|$)")
KEY = re.compile(rf"{_NAMES}(?=[ \t]*=)")
NAME = re.compile(_NAME)
_ENDS = {
    State.BASIC: re.compile(r'(?:\\.|[^\\"]|"(?!""))*("{3,5})?'),
    State.LITERAL: re.compile(r"(?:[^']|'(?!''))*('{3,5})?"),
}
_VALUES = (
    (Kind.STRING, re.compile(r"""\"(?:\\.|[^\\"])*"?|'[^']*'?""")),
    (
        Kind.CONSTANT,
        re.compile(r"(?:true|false)\b|\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d[\d:.+Zz-]*)?|\d\d:\d\d[\d:.]*"),
    ),
    (
        Kind.NUMBER,
        re.compile(
            r"[+-]?(?:0x[0-9A-Fa-f_]+|0o[0-7_]+|0b[01_]+|inf\b|nan\b|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)"
        ),
    ),
)
_WORD = re.compile(r"[A-Za-z0-9_-]+|.")


def tokens(line: str, state: State = State.PLAIN) -> tuple[list[Token], State]:
    """Return the tokens of one line, and the state at the start of the next."""
    found: list[Token] = []
    at = 0
    if state is State.PLAIN and (header := HEADER.match(line)):
        found.append(Token(header.start(1), max(header.end(group) for group in (1, 2, 3)), Kind.TABLE))
        at = header.end()
    while at < len(line) or state is not State.PLAIN:
        if state is not State.PLAIN:
            end, closed = _string_end(line, at, state)
            found.append(Token(at, end, Kind.STRING))
            at = end
            if not closed:
                return found, state
            state = State.PLAIN
            continue
        if line.startswith(('"""', "'''"), at):
            state = State.BASIC if line[at] == '"' else State.LITERAL
            end, closed = _string_end(line, at + 3, state)
            found.append(Token(at, end, Kind.STRING))
            at = end
            if not closed:
                return found, state
            state = State.PLAIN
            continue
        token, at = _token(line, at)
        if token is not None:
            found.append(token)
    return found, State.PLAIN


def written_span(line: str) -> tuple[int, int]:
    """Return begin and end of a line's content: without blanks, and without a comment if there is other
    content.
    """
    found = [token for token in tokens(line)[0] if token.kind is Kind.COMMENT]
    said = line[: found[-1].start].rstrip() if found else line.rstrip()
    if not said:
        said = line.rstrip()
    return len(said) - len(said.lstrip()), len(said)


def _string_end(line: str, at: int, state: State) -> tuple[int, bool]:
    """Return where a multi-line string ends on this line, and whether it does."""
    match = _ENDS[state].match(line, at)
    assert match is not None  # noqa: S101 - every part of the pattern may be empty
    return (match.end(), True) if match.group(1) else (len(line), False)


def _token(line: str, at: int) -> tuple[Token | None, int]:
    if line[at] in " \t":
        return None, at + 1
    if line[at] == "#":
        return Token(at, len(line), Kind.COMMENT), len(line)
    if key := KEY.match(line, at):
        return Token(at, key.end(), Kind.KEY), key.end()
    for kind, pattern in _VALUES:
        if value := pattern.match(line, at):
            return Token(at, value.end(), kind), value.end()
    word = _WORD.match(line, at)
    return None, at + 1 if word is None else word.end()
