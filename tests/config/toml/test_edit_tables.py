"""Edits of what a form shows as rows: inline tables, lists, tables that are there many times."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.config.toml.edit import (
    EditError,
    add_table,
    remove_table,
    remove_value,
    rename_key,
    set_value,
)

NODES = """\
# two kinds
[cluster]
inter_node = "50GB/s" # measured

# fast
[[cluster.nodes]]
name = "a[0-3]"
gpus = 8

# slow
[[cluster.nodes]]
name = "b"

[training]
lr = 0.1
"""


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        ('e = {A = "1", B = "2"} # x', "A", 'e = {B = "2"} # x'),
        ('e = {A = "1", B = "2"} # x', "B", 'e = {A = "1"} # x'),
        ('e = { A = "1" }', "A", "e = {  }"),
    ],
)
def test_a_pair_leaves_its_braces(before: str, key: str, after: str) -> None:
    """With the comma that parted it; what stands around stays."""
    assert remove_value(before, ("e", key)) == after


def test_a_literal_is_written_as_it_is() -> None:
    """A number stays as it was typed; one that says another value is refused."""
    assert set_value("lr = 1 # x", ("lr",), 3e-4, "3e-4") == "lr = 3e-4 # x"
    with pytest.raises(EditError):
        set_value("lr = 1", ("lr",), 3e-4, "3e-5")


LIST = """\
args = [
  "--lr", # peak
  "0.1", # tried
  "--big",
]
"""


@pytest.mark.parametrize(
    ("values", "after"),
    [
        (["--lr", "0.2", "--big"], LIST.replace("0.1", "0.2")),
        (["--lr", "0.1"], LIST.replace('  "--big",\n', "")),
        (["--lr", "0.1", "--big", "x"], LIST.replace('"--big"', '"--big",\n  "x"')),
        (["--lr", "--big"], LIST.replace('"0.1", # tried\n  ', "")),
        (["x", "--lr", "0.1", "--big"], LIST.replace('"--lr"', '"x",\n  "--lr"')),
        ([], "args = []\n"),
    ],
)
def test_a_list_keeps_what_stays(values: list[str], after: str) -> None:
    """Elements that did not change keep their lines and comments."""
    text = set_value(LIST, ("args",), values)
    assert tomllib.loads(text)["args"] == values
    assert text == after


@given(st.lists(st.integers(0, 4), max_size=6), st.lists(st.integers(0, 4), max_size=6), st.booleans())
@settings(deadline=None)
def test_any_list_becomes_any_other(before: list[int], after: list[int], lines: bool) -> None:
    """On one line and on many with comments."""
    inside = "".join(f"  {item}, # is {item}\n" for item in before) if lines else ", ".join(map(str, before))
    text = f"[a] # first\nb = [{chr(10) if lines else ''}{inside}] # last\nc = 1\n"
    edited = set_value(text, ("a", "b"), after)
    assert tomllib.loads(edited) == {"a": {"b": after, "c": 1}}
    assert edited.startswith("[a] # first\n")
    assert edited.endswith("] # last\nc = 1\n")


def test_a_key_is_renamed_in_place() -> None:
    """Value and comment stay; a name that is taken is refused."""
    text = '[run.env]\nA = "1" # one\nB = "2"\n'
    assert rename_key(text, ("run", "env", "A"), "C D") == text.replace("A =", '"C D" =')
    assert rename_key('e = {A = "1"}', ("e", "A"), "B") == 'e = {B = "1"}'
    assert rename_key("[run]\nenv.A = '1'\n", ("run", "env", "A"), "B") == "[run]\nenv.B = '1'\n"
    with pytest.raises(EditError):
        rename_key(text, ("run", "env", "A"), "B")
    with pytest.raises(EditError):
        rename_key(text, ("run", "env", "X"), "Y")


def test_a_table_is_added_below_its_like() -> None:
    """With what it begins with; and where there is none yet, at the end of the tables it belongs to."""
    edited = add_table(NODES, ("cluster", "nodes"), {"name": "c", "gpus": 1})
    assert edited == NODES.replace('name = "b"\n', 'name = "b"\n\n[[cluster.nodes]]\nname = "c"\ngpus = 1\n')
    first = add_table("[cluster]\nintra_node = 1\n[x]\n", ("cluster", "nodes"), {"name": "c"})
    assert first == '[cluster]\nintra_node = 1\n\n[[cluster.nodes]]\nname = "c"\n[x]\n'
    assert add_table("", ("cluster", "nodes"), {"name": "c"}) == '[[cluster.nodes]]\nname = "c"\n'


def test_a_table_is_removed_with_what_introduces_it() -> None:
    """Its heading, keys, and the comment right above; the others stay."""
    edited = remove_table(NODES, ("cluster", "nodes", 0))
    assert edited == NODES.replace('# fast\n[[cluster.nodes]]\nname = "a[0-3]"\ngpus = 8\n\n', "")
    assert remove_table(NODES, ("cluster", "nodes", 2)) == NODES
    last = remove_table(edited, ("cluster", "nodes", 0))
    assert tomllib.loads(last) == {"cluster": {"inter_node": "50GB/s"}, "training": {"lr": 0.1}}


def test_tables_in_a_list_are_elements() -> None:
    """`nodes = [{…}]` is a way to write the same."""
    text = "[cluster]\nnodes = [{name = 'a'}, {name = 'b'}] # x\n"
    edited = add_table(text, ("cluster", "nodes"), {"name": "c"})
    assert edited == text.replace("'b'}", "'b'}, {name = \"c\"}")
    assert remove_table(text, ("cluster", "nodes", 0)) == text.replace("{name = 'a'}, ", "")
    assert set_value(text, ("cluster", "nodes", 1, "gpus"), 2) == text.replace("'b'", "'b', gpus = 2")


def test_what_is_no_table_is_said() -> None:
    """And nothing is done."""
    with pytest.raises(EditError):
        add_table("a = 1", ("a",), {})
    with pytest.raises(EditError):
        remove_table("a =", ("a",))


TABLES = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abc"), "gpus": st.integers(0, 8)}), max_size=4
)


@given(TABLES, st.data())
@settings(deadline=None)
def test_adding_and_removing_many(tables: list[dict[str, Any]], data: st.DataObject) -> None:
    """Any order of both leaves the tables that it should."""
    text, kept = NODES.replace("[[", "# ").replace('name = "', '# "').replace("gpus", "#"), []
    for table in tables:
        text = add_table(text, ("cluster", "nodes"), table)
        kept.append(table)
        if data.draw(st.booleans()):
            index = data.draw(st.integers(0, len(kept) - 1))
            text = remove_table(text, ("cluster", "nodes", index))
            del kept[index]
    assert tomllib.loads(text).get("cluster", {}).get("nodes", []) == kept
    assert "# two kinds" in text
