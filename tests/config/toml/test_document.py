"""The scanner agrees with tomllib about what there is, and knows the lines."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given, settings

from support.few_examples import few
from support.values.toml_texts import toml_documents
from torchdeck.config.toml.document import KeyPath, scan

TEXT = '''\
top = 1 # not = this
"quo ted".'k' = """
a = 2 "" \\"""" # [x]

[b]  # comment
list = [ # [
  1, { c = [2], d.e = '}' },

  "]",
]
[[many.x]]
y = 1979-05-27 07:32:00
[[many.x]]
[many.x.z]
w = \'\'\'it's\'\'\'
'''


def test_lines_of_a_crowded_text() -> None:
    """Strings, comments, arrays of tables and inline tables do not confuse the lines."""
    lines = scan(TEXT).lines
    expected: dict[KeyPath, int] = {
        ("top",): 1,
        ("quo ted", "k"): 2,
        ("b",): 5,
        ("b", "list"): 6,
        ("b", "list", 0): 7,
        ("b", "list", 1, "c", 0): 7,
        ("b", "list", 1, "d", "e"): 7,
        ("b", "list", 2): 9,
        ("many", "x", 0, "y"): 12,
        ("many", "x", 1): 13,
        ("many", "x", 1, "z", "w"): 15,
    }
    assert {path: lines[path] for path in expected} == expected


def paths_of(value: Any, path: KeyPath = ()) -> set[KeyPath]:
    """Every path that tomllib's result has."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = {path} if path else set()
    return found.union(*(paths_of(item, (*path, key)) for key, item in below))


@settings(deadline=None, max_examples=few(20))
@given(toml_documents())
def test_the_scanner_finds_what_tomllib_finds(text: str) -> None:
    """The same keys, tables and elements, and each value's span is that value."""
    document, meant = scan(text), tomllib.loads(text)
    assert set(document.lines) == paths_of(meant)
    for entry in document.entries:
        value: Any = meant
        for key in entry.path:
            value = value[key]
        assert repr(tomllib.loads(f"v = {text[entry.value_start : entry.value_end]}")["v"]) == repr(value)
        line = document.lines[entry.path]
        assert text.count("\n", 0, entry.start) + 1 >= line
