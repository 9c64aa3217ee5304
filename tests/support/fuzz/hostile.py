"""Strategies for hostile input: documents that are nearly right, with values that break careless readers."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

RAW = (
    "null",
    "true",
    "-1",
    "0",
    "1e308",
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "-Infinity",
    "9" * 400,
    "-" + "9" * 400,
    "9" * 5000,
    "18446744073709551615",
    "9223372036854775808",
    "1e18",
    "0.1e-400",
    '""',
    '"x"',
    r'"\ud800"',
    r'"\udc80"',
    r'"\u0000"',
    r'"\u001b]52;c;aGk=\u0007\u202e"',
    '"../../../etc/passwd"',
    '"/"',
    '"' + "a" * 70_000 + '"',
    "[]",
    "{}",
    "[[]]",
    '[null, -1, "x", {}]',
    '{"": {"": null}}',
    '{"a": 1, "a": 2}',
    "[" * 70 + "]" * 70,
    "[" * 100_000,
    "[" * 100_000 + "]" * 100_000,
    '{"a":' * 2_000 + "1" + "}" * 2_000,
    "[" + "{}," * 50_000 + "0]",
)
"""JSON as text, and what is none: put where a value is expected."""
_MARK = "\ufdd0%d\ufdd0"


def values() -> st.SearchStrategy[Any]:
    """Any small JSON value."""
    leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | _objects(inner), max_leaves=8)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.text(max_size=8), inner, max_size=3)


@st.composite
def documents(draw: st.DrawFn, *examples: Any) -> bytes:
    """One of the JSON values `examples`: some of its values are replaced or missing, it may be damaged."""
    value = copy.deepcopy(draw(st.sampled_from(examples)))
    texts = {}
    for number in range(draw(st.integers(0, 3))):
        places = _places(value)
        if not places:
            break
        holder, key = draw(st.sampled_from(places))
        if draw(st.integers(0, 4)) == 0:
            del holder[key]
            continue
        mark = _MARK % number
        texts[mark] = draw(st.sampled_from(RAW) | values().map(json.dumps))
        holder[key] = mark
    text = json.dumps(value, ensure_ascii=False)
    for mark, raw in texts.items():
        text = text.replace(f'"{mark}"', raw)
    content = text.encode("utf-8", "surrogatepass")
    return draw(damaged(content)) if draw(st.integers(0, 3)) == 0 else content


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """`content` cut, or with some bytes replaced or put in."""
    at = draw(st.integers(0, len(content)))
    piece = draw(st.binary(max_size=8))
    skipped = draw(st.sampled_from((0, len(piece), len(content))))
    return content[:at] + piece + content[at + skipped :]


def _places(value: Any) -> list[tuple[Any, Any]]:
    """All places of a value, as the container and the key or index in it."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys = (
            list(holder)
            if isinstance(holder, dict)
            else range(len(holder))
            if isinstance(holder, list)
            else ()
        )
        for key in keys:
            found.append((holder, key))
            waiting.append(holder[key])
    return found
