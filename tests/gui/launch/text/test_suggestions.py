"""What is offered at a spot, and what a key's help says."""

from __future__ import annotations

import pytest

from torchdeck_app.launch.text.characters import characters, units
from torchdeck_app.launch.text.editor import matches, next_match
from torchdeck_app.launch.text.suggestions import explained, suggestions
from torchdeck_app.launch.text.toml_context import key_at, spot_at

TEXT = """\
name = "x"
[run]
recipe = "byte-gpt"

[training]
lr = 0.1
st
optimizer =
[distributed]
strategy = "d"
"""
LINES = TEXT.split("\n")


def offered(row: int, column: int | None = None, recipe: str | None = "byte-gpt") -> list[str]:
    line = LINES[row]
    spot = spot_at(LINES, row, len(line) if column is None else column)
    return [item.insert for item in suggestions(spot, recipe)]


def test_keys_of_the_table_that_begin_so() -> None:
    assert offered(6)[0] == "steps = "
    assert "lr = " not in offered(6), "it is there already"


def test_values_of_a_key() -> None:
    assert '"adamw"' in offered(7)
    assert offered(9, 13) == ['"ddp"', '"deepspeed"'] or set(offered(9, 13)) >= {'"ddp"', '"deepspeed"'}
    assert '"byte-gpt"' in offered(2, 9)


def test_tables() -> None:
    spot = spot_at(["[dis"], 0, 4)
    assert (spot.kind, spot.start) == ("table", 0)
    assert next(item.insert for item in suggestions(spot, None)) == "[distributed]"


@pytest.mark.parametrize("line", ["# comm", 'a = """', "x = 1 # y"])
def test_nothing_in_comments_and_long_strings(line: str) -> None:
    assert suggestions(spot_at([line], 0, len(line)), None) == []


def test_options_of_the_recipe() -> None:
    spot = spot_at(["[model]", ""], 1, 0)
    names = [item.label for item in suggestions(spot, "digits")]
    assert "dropout" in names
    assert "context" not in names


def test_the_key_under_the_pointer_is_explained() -> None:
    assert key_at(LINES, 5, 1) == ("training", "lr")
    assert key_at(LINES, 8, 3) == ("distributed",)
    assert key_at(LINES, 5, 6) == ()
    told = explained(("training", "lr"), None)
    assert "training.lr" in told
    assert "Default" in told
    assert explained(("no", "such"), None) == ""
    assert "&lt;" not in told or "<script" not in told


def test_places_of_a_text() -> None:
    assert matches("abAB", "ab") == [(0, 2), (2, 4)]
    assert matches("abAB", "AB", case=True) == [(2, 4)]
    assert matches("a.c abc", ".") == [(1, 2)]
    found = [(0, 2), (5, 7)]
    assert next_match(found, 1) == 1
    assert next_match(found, 6) == 0
    assert next_match(found, 1, backwards=True) == 1
    assert next_match([], 1) is None


@pytest.mark.parametrize("text", ["abc", "aü𝄞b𝄞"])
def test_qts_offsets(text: str) -> None:
    for at in range(len(text) + 1):
        assert characters(text, units(text[:at])) == at
