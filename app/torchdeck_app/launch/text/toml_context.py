"""Tokens on a line of TOML, and the context of the cursor; both work with incomplete text."""

from __future__ import annotations

import re
from enum import Enum, IntEnum
from typing import Literal, NamedTuple


class Spot(NamedTuple):
    """Context of the input at the cursor."""

    kind: Literal["key", "value", "table", "nothing"]
    table: tuple[str, ...]
    """Table of the [header] above."""
    key: tuple[str, ...]
    """Full path of the key whose value is typed; () elsewhere."""
    start: int
    """Start column of the input."""
    typed: str
    """Text from there to the cursor."""
    written: frozenset[str]
    """Keys that the table already has."""


NOTHING = Spot("nothing", (), (), 0, "", frozenset())


def spot_at(lines: list[str], row: int, column: int) -> Spot:
    """Return the spot before `column` of line `row`, both counted from 0."""
    table, written, state = _above(lines, row)
    before = lines[row][:column]
    found, after = tokens(before, state)
    if state is not State.PLAIN or after is not State.PLAIN:
        return NOTHING
    if found and found[-1].kind is Kind.COMMENT:
        return NOTHING
    if before.lstrip().startswith("["):
        start = len(before) - len(before.lstrip())
        return Spot("table", table, (), start, before[start:], frozenset())
    keys = [token for token in found if token.kind is Kind.KEY]
    if keys:
        path = (*table, *names(before[keys[0].start : keys[0].end]))
        after_sign = before.index("=", keys[0].end) + 1
        start = after_sign + len(before[after_sign:]) - len(before[after_sign:].lstrip())
        return Spot("value", table, path, start, before[start:], frozenset())
    typed = before.lstrip()
    below = _keys_below(lines, row)
    return Spot("key", table, (), len(before) - len(typed), typed, written | below)


def key_at(lines: list[str], row: int, column: int) -> tuple[str, ...]:
    """Return the path of the key or table named at a position; () if there is none."""
    table, _, state = _above(lines, row)
    line = lines[row]
    if state is State.PLAIN and (header := HEADER.match(line)):
        inside = header.start(1) <= column < max(header.end(group) for group in (1, 2, 3))
        return tuple(names(header.group(2) or "")) if inside else ()
    for token in tokens(line, state)[0]:
        if token.kind is Kind.KEY and token.start <= column < token.end:
            return (*table, *names(line[token.start : token.end]))
    return ()


def names(dotted: str) -> list[str]:
    """Return the parts of a dotted key as written."""
    return [part[1:-1] if part[:1] in "\"'" else part for part in NAME.findall(dotted)]


def _above(lines: list[str], row: int) -> tuple[tuple[str, ...], frozenset[str], State]:
    """Return the table of line `row`, its keys above that line, and the state at the line's start."""
    table: tuple[str, ...] = ()
    written: set[str] = set()
    state = State.PLAIN
    for line in lines[:row]:
        if state is State.PLAIN and (header := HEADER.match(line)):
            table, written = tuple(names(header.group(2) or "")), set()
        elif state is State.PLAIN and (key := KEY.match(line.lstrip())):
            written.add(names(key.group())[0])
        state = tokens(line, state)[1]
    return table, frozenset(written), state


def _keys_below(lines: list[str], row: int) -> frozenset[str]:
    """Return the first names of the keys between line `row` and the next table."""
    found: set[str] = set()
    for line in lines[row + 1 :]:
        if HEADER.match(line):
            break
        if key := KEY.match(line.lstrip()):
            found.add(names(key.group())[0])
    return frozenset(found)


# Tokens on a line of TOML, for highlighting; works with incomplete text too.


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
