"""Positions of new keys and tables in a run file's text, and the extent of one that is cut out."""

from __future__ import annotations

import re

from torchdeck.config.toml.document import Document, Entry, Header, KeyPath, toml_path


def inserted(document: Document, path: KeyPath, written: str) -> str:
    """Return the text with a key that is not in it yet."""
    text = document.text
    newline = newline_of(text)
    for length in range(len(path) - 1, -1, -1):
        table, rest = path[:length], path[length:]
        if table in document.inline_tables:
            return _into_braces(document, table, f"{toml_path(rest)} = {written}")
        dotted = [entry for entry in document.entries if _opens(entry, table)]
        if dotted:  # table opened by dotted keys: TOML wants the others there too
            name = toml_path(path[len(dotted[-1].header) :])
            return _below(text, dotted[-1], f"{name} = {written}", newline)
        header = next((header for header in document.headers if header.path == table), None)
        if length == len(path) - 1 and (header is not None or not table):
            own = [entry for entry in document.entries if entry.header == table and entry.inline is None]
            line = f"{toml_path(rest)} = {written}"
            if own:
                return _below(text, own[-1], line, newline)
            return _at_line(text, header.end, line, newline) if header else _on_top(document, line, newline)
    return new_block(document, path, f"[{toml_path(path[:-1])}]{newline}{toml_path(path[-1:])} = {written}")


def _opens(entry: Entry, table: KeyPath) -> bool:
    """Return whether the entry's dotted key goes through `table`."""
    inside = entry.inline is None and len(entry.header) < len(table) < len(entry.path)
    return inside and entry.path[: len(table)] == table


def _into_braces(document: Document, table: KeyPath, pair: str) -> str:
    text = document.text
    start, end = document.inline_tables[table]
    inside = [entry for entry in document.entries if entry.inline == table]
    if not inside:
        return f"{text[:start]}{{{pair}}}{text[end:]}"
    at = max(entry.value_end for entry in inside)
    return f"{text[:at]}, {pair}{text[at:]}"


def _below(text: str, entry: Entry, line: str, newline: str) -> str:
    start = line_start(text, entry.start)
    indent = text[start : entry.start]
    return _at_line(text, entry.value_end, indent + line, newline)


def _at_line(text: str, offset: int, line: str, newline: str) -> str:
    """Return the text with `line` below the line that contains `offset`."""
    at = line_end(text, offset)
    before = text[:at]
    if before and not before.endswith("\n"):
        before += newline
    return before + line + newline + text[at:]


def _on_top(document: Document, line: str, newline: str) -> str:
    """Return the text with a first key before any table: above the first table and its introducing
    comment.
    """
    text = document.text
    if not document.headers:
        return _at_line(text, len(text), line, newline)
    at = _introduced(text, line_start(text, document.headers[0].start))
    return text[:at] + line + newline + newline + text[at:]


def out_of_braces(document: Document, entry: Entry) -> str:
    """Return the text without one pair of an inline table, and without its separating comma."""
    inside = [other for other in document.entries if other.inline == entry.inline]
    at = inside.index(entry)
    start = inside[at - 1].value_end if at else entry.start
    end = entry.value_end if at or len(inside) == 1 else inside[1].start
    return document.text[:start] + document.text[end:]


def block_of(document: Document, header: Header) -> tuple[int, int]:
    """Return the span of a table with its heading, the comment right above it, and blank lines below."""
    text = document.text
    following = [other.start for other in document.headers if other.start > header.start]
    inside = [
        entry.value_end
        for entry in document.entries
        if header.start < entry.start < (following[0] if following else len(text))
    ]
    start, end = line_start(text, header.start), line_end(text, max([header.end, *inside]))
    above = _introduced(text, start)
    blank = re.compile(r"[ \t\r]*\n").match(text, end)
    while blank is not None:
        end = blank.end()
        blank = re.compile(r"[ \t\r]*\n").match(text, end)
    return (above if above > 0 else start), end


def _introduced(text: str, at: int) -> int:
    """Return the start of the comment right above the line at `at`; `at` if there is none."""
    while at > 0:
        above = line_start(text, at - 1)
        if not text[above:at].lstrip(" \t").startswith("#"):
            break
        at = above
    return at


def newline_of(text: str) -> str:
    """Return the line ending of `text`."""
    return "\r\n" if "\r\n" in text else "\n"


def new_block(document: Document, path: KeyPath, block: str) -> str:
    """Return the text with a table and its first lines; `path` is that of a key in it."""
    text, newline = document.text, newline_of(document.text)
    at = len(text)
    for length in range(len(path) - 1, 0, -1):
        related = [header for header in document.headers if header.path[:length] == path[:length]]
        if related:
            own = [entry.value_end for entry in document.entries if entry.header == related[-1].path]
            at = line_end(text, max([related[-1].end, *own]))
            break
    before = text[:at]
    if before and not before.endswith("\n"):
        before += newline
    gap = newline if before else ""
    return before + gap + block + newline + text[at:]


def line_start(text: str, offset: int) -> int:
    """Return the start of the line that contains `offset`."""
    return text.rfind("\n", 0, offset) + 1


def line_end(text: str, offset: int) -> int:
    """Return the offset after the line break of the line that contains `offset`."""
    end = text.find("\n", offset)
    return len(text) if end < 0 else end + 1
