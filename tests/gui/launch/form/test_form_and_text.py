"""Form and text are two views of one document: whatever is done in either, both say the same."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytestqt.qtbot import QtBot

from torchdeck.config.problems import dotted
from torchdeck.config.starting_files import preset_names, preset_text
from torchdeck.config.toml.edit import EditError
from torchdeck_app.launch.document.checked_text import CheckedDocument, CheckRequest, check_document
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.form.codecs import UnreadableError, codec_of
from torchdeck_app.launch.form.form_edits import (
    NamedEdit,
    adding,
    removing,
    renaming,
    resetting,
    setting,
)
from torchdeck_app.launch.form.form_model import FormModel
from torchdeck_app.launch.form.form_state import FieldState

TEXTS = st.sampled_from(
    [
        "3e-4",
        "7",
        "auto",
        "abc",
        "",
        "0.9, 0.95",
        "[1, 2]",
        "a b 'c d'",
        "true",
        "512MiB",
        "1:2",
        "#",
        '"',
        "\\",
    ]
)


def check(document: RunDocument) -> CheckedDocument:
    """As the document's own thread does."""
    return check_document(CheckRequest(document.version, document.text, None, Path("/nowhere")))


def edit_of(state: FieldState, text: str, index: int) -> NamedEdit | None:
    """What a person could do in the field with `text`."""
    if state.key.repeated:
        count = len(state.entries)
        return (
            adding(state.path, {"name": "n"})
            if not count or index % 2
            else removing((*state.path, index % count))
        )
    if state.key.free:
        names = list(state.value or {})
        if names and index % 3 == 0:
            return renaming((*state.path, names[0]), f"N{index}")
        return setting((*state.path, names[0] if names and index % 3 == 1 else "NEW"), text)
    if not text:
        return resetting(state.path) if state.own else None
    try:
        typed = codec_of(state.key).read(text)
    except UnreadableError:
        return None
    return setting(state.path, typed.value, typed.literal)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("form"), st.integers(0, 500), TEXTS),
        st.tuples(
            st.just("text"), st.integers(0, 500), st.sampled_from(["# c\n", "\n", "x", "1", '"', "[t]\n"])
        ),
        st.tuples(st.just("undo"), st.integers(1, 3), st.just("")),
        st.tuples(st.just("redo"), st.integers(1, 3), st.just("")),
    ),
    min_size=1,
    max_size=14,
)


@given(st.sampled_from(preset_names()), STEPS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_form_and_text_say_the_same(qtbot: QtBot, preset: str, steps: list[Any]) -> None:
    """After any edits of either, fields hold what tomllib reads; undoing all gives the text byte for byte."""
    original = preset_text(preset)
    document = RunDocument(Path("/nowhere"), clock=lambda: 0.0)
    document.load(original, None)
    for what, where, text in steps:
        if what == "form":
            edit_a_field(document, where, text)
        elif what == "text":
            at = where % (len(document.text) + 1)
            document.set_text(document.text[:at] + text + document.text[at:])
        else:
            for _ in range(where):
                getattr(document.undo_stack, what)()
        fields_hold_the_text(document)
    document.undo_stack.setIndex(0)
    assert document.text == original
    document.close()


def edit_a_field(document: RunDocument, where: int, text: str) -> None:
    """One of the fields that are seen; an edit that cannot be made changes nothing."""
    fields = [f for f in FormModel(check(document)).state().by_path.values() if f.visible]
    edit = edit_of(fields[where % len(fields)], text, where)
    before = document.text
    if edit is None:
        return
    try:
        document.edit(edit.name, edit.change)
    except EditError:
        assert document.text == before


def fields_hold_the_text(document: RunDocument) -> None:
    """Every value of the text stands in a field, and no field holds another one."""
    checked = check(document)
    if checked.table is None:
        return
    assert document.table == tomllib.loads(document.text)
    by_path = FormModel(checked).state().by_path
    for path, state in by_path.items():
        value: Any = document.table
        for key in path:
            inside = isinstance(value, list) or (isinstance(value, dict) and key in value)
            value = value[key] if inside else None
        assert state.own == (value is not None), dotted(path)
        if state.own:
            assert repr(state.value) == repr(value), dotted(path)
