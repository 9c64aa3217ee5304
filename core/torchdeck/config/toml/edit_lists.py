"""Changing a list in a run file's text: elements that stay keep their place and their comments."""

from __future__ import annotations

import re
from typing import Any

from torchdeck.config.toml.document import Document, KeyPath
from torchdeck.config.toml.toml_text import toml_value

_TRAILING_COMMA = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*,")
_COMMENT = re.compile(r"[ \t\r]*(?:#[^\n]*)?\n")


def with_elements(document: Document, path: KeyPath, before: list[Any], after: list[Any]) -> str:
    """The text whose list at `path` holds `after` instead of `before`."""
    text = document.text
    entry = document.entry(path)
    if entry is None:
        raise ValueError("no list stands there")
    if not before or not after:
        return text[: entry.value_start] + toml_value(after) + text[entry.value_end :]
    spans = [document.elements[(*path, index)] for index in range(len(before))]
    old, new = [toml_value(item) for item in before], [toml_value(item) for item in after]
    first = _common(old, new)
    rest = _common(old[first:][::-1], new[first:][::-1])
    last, added = len(old) - rest, new[first : len(new) - rest]
    kept = min(last - first, len(added))
    if len(added) > kept:
        text = _inserted(text, spans, first + kept, added[kept:])
    elif last > first + kept:
        text = _cut(text, spans, first + kept, last)
    for index in reversed(range(first, first + kept)):
        start, end = spans[index]
        text = text[:start] + added[index - first] + text[end:]
    return text


def _common(one: list[str], other: list[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _inserted(text: str, spans: list[tuple[int, int]], at: int, items: list[str]) -> str:
    """With `items` before element `at`, parted as the elements there are."""
    start = spans[0][0]
    line = text.rfind("\n", 0, start) + 1
    comma = f",\n{text[line:start]}" if not text[line:start].strip() else ", "
    if len(spans) > 1 and "#" not in text[spans[0][1] : spans[1][0]]:
        comma = text[spans[0][1] : spans[1][0]]
    if at == 0:
        return text[:start] + "".join(item + comma for item in items) + text[start:]
    end = spans[at - 1][1]
    return text[:end] + "".join(comma + item for item in items) + text[end:]


def _cut(text: str, spans: list[tuple[int, int]], first: int, last: int) -> str:
    """Without elements `first` to `last`, that one excluded."""
    if last < len(spans):
        return text[: spans[first][0]] + text[spans[last][0] :]
    start, end = spans[first - 1][1], spans[last - 1][1]
    if "#" not in text[start : spans[first][0]]:
        return text[:start] + text[end:]
    # the comment before it belongs to an element that stays, and so does the comma there
    comma = _TRAILING_COMMA.match(text, end)
    end = end if comma is None else comma.end()
    before = text[: spans[first][0]]
    comment = _COMMENT.match(text, end)
    if comment is not None and comment.group().endswith("\n"):
        return before.rstrip() + text[comment.end() - 1 :]
    return before + text[end:]
