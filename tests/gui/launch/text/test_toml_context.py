"""Colours of TOML, by values."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.few_examples import few
from support.values.toml_texts import toml_documents
from torchdeck.config.toml.document import scan
from torchdeck_app.launch.text.toml_context import Kind, State, tokens


def kinds(line: str, state: State = State.PLAIN) -> list[tuple[str, str]]:
    return [(line[token.start : token.end], token.kind.value) for token in tokens(line, state)[0]]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("# all", [("# all", "comment")]),
        ("[a.b] # c", [("[a.b]", "table"), ("# c", "comment")]),
        ("[[cluster.nodes]]", [("[[cluster.nodes]]", "table")]),
        ('[a."x y"', [('[a."x y"', "table")]),
        (
            'a.b = "x # y" # z',
            [("a.b", "key"), ('"x # y"', "string"), ("# z", "comment")],
        ),
        ("n = [1, -2.5e3, 0x1F]", [("n", "key"), ("1", "number"), ("-2.5e3", "number"), ("0x1F", "number")]),
        (
            "t = {a = true, b = 'x'}",
            [("t", "key"), ("a", "key"), ("true", "constant"), ("b", "key"), ("'x'", "string")],
        ),
        ("  0.9, 0.95]", [("0.9", "number"), ("0.95", "number")]),
        ("d = 2026-11-22T10:00:00Z", [("d", "key"), ("2026-11-22T10:00:00Z", "constant")]),
        ('s = "open', [("s", "key"), ('"open', "string")]),
        ("trueish = trueish", [("trueish", "key")]),
        ('"a b" = 1', [('"a b"', "key"), ("1", "number")]),
    ],
)
def test_stretches_of_a_line(line: str, wanted: list[tuple[str, str]]) -> None:
    assert kinds(line) == wanted


def test_a_string_of_several_lines_goes_on() -> None:
    found, state = tokens('a = """x')
    assert [token.kind for token in found] == [Kind.KEY, Kind.STRING]
    assert state is State.BASIC
    assert tokens("# no comment", state)[1] is State.BASIC
    assert kinds('y""" # end', State.BASIC) == [('y"""', "string"), ("# end", "comment")]
    assert tokens("a = '''x''' ")[1] is State.PLAIN


@settings(max_examples=few(20), deadline=None)
@given(toml_documents())
def test_every_key_of_valid_toml_is_seen(text: str) -> None:
    """Whatever is valid: each key on a line of its own has the colour of keys, and nothing overlaps."""
    entries = {entry.start for entry in scan(text).entries if entry.inline is None}
    state, offset = State.PLAIN, 0
    seen: set[int] = set()
    for line in text.split("\n"):
        found, state = tokens(line, state)
        assert all(one.end <= other.start for one, other in pairwise(found))
        seen |= {offset + token.start for token in found if token.kind is Kind.KEY}
        offset += len(line) + 1
    assert entries <= seen
    assert state is State.PLAIN


@settings(deadline=None)
@given(st.text(alphabet="[]{}\"'#=.,ab1 \\-", max_size=40), st.sampled_from(State))
def test_half_typed_text_never_fails(line: str, state: State) -> None:
    found, _ = tokens(line, state)
    assert all(0 <= token.start <= token.end <= len(line) for token in found)
