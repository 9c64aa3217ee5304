"""Changing a value keeps every other byte of the file."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from support.few_examples import few
from support.values.toml_texts import toml_documents
from torchdeck.config.keys import all_keys
from torchdeck.config.starting_files import preset_names, preset_text
from torchdeck.config.toml.document import scan
from torchdeck.config.toml.edit import EditError, remove_value, set_value

TEXT = """\
# My run

# what
[run]
recipe = "byte-gpt"   # built in
env = {A = "1"}

# how long
[training]
  steps = 3 # few

# sharding
[distributed.fsdp]
wrap = "size"
"""


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        ("run.recipe", "x.py", 'recipe = "byte-gpt"   # built in', 'recipe = "x.py"   # built in'),
        ("run.script", "x.py", 'env = {A = "1"}\n', 'env = {A = "1"}\nscript = "x.py"\n'),
        ("run.env.A", "2", '{A = "1"}', '{A = "2"}'),
        ("run.env.B", "2", '{A = "1"}', '{A = "1", B = "2"}'),
        ("training.lr", 1e-5, "# few\n", "# few\n  lr = 1e-05\n"),
        ("name", "n", "# what\n[run]", 'name = "n"\n\n# what\n[run]'),
        ("distributed.fsdp.min_params", 7, 'wrap = "size"\n', 'wrap = "size"\nmin_params = 7\n'),
        ("distributed.nproc", 2, 'wrap = "size"\n', 'wrap = "size"\n\n[distributed]\nnproc = 2\n'),
        (
            "distributed.ddp.bucket_size_mb",
            2.0,
            '"size"\n',
            '"size"\n\n[distributed.ddp]\nbucket_size_mb = 2.0\n',
        ),
        (
            "telemetry.patterns",
            [r"(?P<x>\d)"],
            '"size"\n',
            '"size"\n\n[telemetry]\npatterns = ["(?P<x>\\\\d)"]\n',
        ),
    ],
)
def test_where_a_value_goes(path: str, value: Any, old: str, new: str) -> None:
    """In place; below the last key of its table, above the next one's comment; a new table behind its kin."""
    assert TEXT.count(old) == 1
    assert set_value(TEXT, path.split("."), value) == TEXT.replace(old, new)


def test_dotted_tables_stay_dotted() -> None:
    """A table that dotted keys made gets its new key the same way, and where they are."""
    assert set_value("a.b.c = 1\nx = 2\n", ("a", "b", "d"), 3) == "a.b.c = 1\na.b.d = 3\nx = 2\n"
    assert set_value("[t]\na.c = 1\n[u]\n", ("t", "a", "d"), 3) == "[t]\na.c = 1\na.d = 3\n[u]\n"


def test_files_without_a_last_line_break_and_with_crlf() -> None:
    """A missing line break is made up for, and Windows' stay Windows'."""
    assert set_value("[a]\nb = 1", ("a", "c"), 2) == "[a]\nb = 1\nc = 2\n"
    assert set_value("[a]\r\nb = 1\r\n", ("a", "c"), 2) == "[a]\r\nb = 1\r\nc = 2\r\n"
    assert set_value("", ("a", "c"), 2) == "[a]\nc = 2\n"


def test_what_cannot_be_set() -> None:
    """No TOML, a way through a value, a table, an array of tables, a value TOML has not: said, not done."""
    for text, path, value in (
        ("a =", ("a",), 1),
        ("a = 1", ("a", "b"), 1),
        ("[a]\nb = 1", ("a",), 1),
        ("[[a]]\nb = 1", ("a", "b"), 1),
        ("", ("a",), None),
        ("", (), 1),
    ):
        with pytest.raises(EditError):
            set_value(text, path, value)


def test_removing() -> None:
    """A key goes with its line; what is not there is no matter."""
    assert remove_value(TEXT, ("training", "steps")) == TEXT.replace("  steps = 3 # few\n", "")
    assert remove_value(TEXT, ("training", "lr")) == TEXT
    with pytest.raises(EditError):
        remove_value(TEXT, ("training",))


PLAIN = st.integers() | st.booleans() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
)


@settings(deadline=None, max_examples=few(20))
@given(toml_documents(), st.data())
def test_replacing_changes_the_value_and_no_other_byte(text: str, data: st.DataObject) -> None:
    """Any value of any document: what is before and behind it stays byte for byte, and it reads back."""
    entries = [entry for entry in scan(text).entries if all(isinstance(key, str) for key in entry.path)]
    if not entries:
        return
    entry = data.draw(st.sampled_from(entries))
    if text[entry.value_start] == "{":
        return
    value = data.draw(VALUES)
    path = [str(key) for key in entry.path]
    edited = set_value(text, path, value)
    assert edited.startswith(text[: entry.value_start])
    assert edited.endswith(text[entry.value_end :])
    assert _at(edited, path) == value


@settings(deadline=None, max_examples=few(20))
@given(
    toml_documents(), st.sampled_from([path for path in all_keys() if path[0] != "extends"]), st.integers()
)
def test_adding_keeps_every_line(text: str, path: tuple[str, ...], value: int) -> None:
    """A new key in any document: taking the added lines away again leaves the text as it was."""
    try:
        edited = set_value(text, path, value)
    except EditError:
        reject()  # a value or an array of tables is in the way
    assert _at(edited, path) == value
    if _has(text, path):
        return
    kept, rest = text.splitlines(), iter(edited.splitlines())
    assert all(line in rest for line in kept)  # in the same order
    assert len(edited.splitlines()) - len(kept) <= 3


@settings(deadline=None)
@given(
    st.sampled_from(preset_names()),
    st.sampled_from([key.path for key in all_keys().values() if key.section is None and not key.free]).filter(
        lambda path: path[:2] != ("cluster", "nodes") or len(path) == 2  # a list of tables has no keys itself
    ),
)
def test_presets_can_be_edited_and_put_back(name: str, path: tuple[str, ...]) -> None:
    """Setting any key of any preset and removing it, or setting it back, gives the file again."""
    text = preset_text(name)
    table: Any = tomllib.loads(text)
    for key in path:
        table = table.get(key) if isinstance(table, dict) else None
    edited = set_value(text, path, "new")
    if table is not None:
        assert tomllib.loads(set_value(edited, path, table)) == tomllib.loads(text)
        return
    lines = iter(edited.splitlines())
    assert all(line in lines for line in text.splitlines())


def _has(text: str, path: Any) -> bool:
    value: Any = tomllib.loads(text)
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


def _at(text: str, path: Any) -> Any:
    value: Any = tomllib.loads(text)
    for key in path:
        value = value[key]
    return value
