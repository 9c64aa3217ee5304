"""Cursor context in a run file, derived from its lines; works with text that is not valid TOML yet."""

from __future__ import annotations

from typing import Literal, NamedTuple

from torchdeck_app.launch.text.toml_syntax import HEADER, KEY, NAME, Kind, State, tokens


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
