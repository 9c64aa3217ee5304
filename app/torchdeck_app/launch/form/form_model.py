"""Conversion of a checked document to the form's state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torchdeck.config.keys import Key, all_keys
from torchdeck.config.problems import Problem, undotted
from torchdeck.config.remedies import remedies_of
from torchdeck.config.rules.contradictions import is_for_recipes
from torchdeck.config.toml.document import KeyPath
from torchdeck_app.launch.document.checked_text import CheckedDocument, plain, same_value
from torchdeck_app.launch.form.codecs import codec_of
from torchdeck_app.launch.form.form_edits import KINDS
from torchdeck_app.launch.form.form_groups import (
    BASIC,
    ESSENTIAL,
    PROGRAM,
    heading_of,
    keys_by_group,
    keys_of_many,
    title_of,
)
from torchdeck_app.launch.form.form_state import FieldState, FormState, GroupState

_NOTHING = object()
_SUMMARY = 60
"""Maximum characters of one value in a summary."""
_WITH_UNIT = ("steps", "epochs", "nproc", "max_hours", "parameters")
"""Keys identified by their unit in a summary."""
_NAMED = ("memory", "on_hang")
"""Keys whose value needs their name."""


class FormModel:
    """Model of one checked document, whose text is TOML."""

    def __init__(self, checked: CheckedDocument, *, kind: str = "", planned: Sequence[Problem] = ()) -> None:
        """Args:
        checked: the document.
        kind: recipe, script or module, if the user has chosen one that is not written yet.
        planned: why no plan can be made of a document without other problems.
        """
        self._checked = checked
        self._table: Mapping[str, Any] = checked.table or {}
        self._problems = checked.problems or tuple(planned)
        self._remedies = checked.remedies or remedies_of(tuple(planned), checked.text)
        recipe = self._written(("run", "recipe"))
        self._recipe = recipe if isinstance(recipe, str) else None
        self.kind = self.written_kind() or KINDS[0]
        self._offered = kind or self.kind

    def written_kind(self) -> str:
        """Return which of recipe, script and module is written; empty if none."""
        return next((kind for kind in KINDS if self._written(("run", kind)) is not None), "")

    def state(self) -> FormState:
        """Return the whole state of the form."""
        by_group = {
            name: tuple(self._field(key, key.path) for key in keys)
            for name, keys in keys_by_group(self._recipe, self.kind).items()
        }
        at_fields = {
            problem for fields in by_group.values() for field in fields for problem in field.problems
        }
        groups = [self._group(name, fields, at_fields) for name, fields in by_group.items()]
        fields = {field.path: field for group in groups for field in group.fields}
        inner = {cell.path: cell for field in fields.values() for entry in field.entries for cell in entry}
        placed = {problem for group in groups for problem in group.problems}
        placed |= {problem for field in fields.values() for problem in field.problems}
        loose = tuple(problem for problem in self._problems if problem not in placed)
        return FormState(tuple(groups), loose, {**fields, **inner})

    def _group(self, name: str, fields: tuple[FieldState, ...], at_fields: Collection[Problem]) -> GroupState:
        mine = [p for p in self._problems if undotted(p.path)[:1] == (name,)]
        if name in (BASIC, PROGRAM):  # what is run is basic
            mine = [p for p in self._problems if undotted(p.path)[:1] == (PROGRAM,)]
            mine = [p for p in mine if (undotted(p.path) == (PROGRAM,)) == (name == BASIC)]
        loose = tuple(problem for problem in mine if problem not in at_fields)
        written = self._written((name,)) is not None
        visible = any(field.visible for field in fields) or (written and bool(loose))
        about = "" if name == BASIC else all_keys(self._recipe)[(name,)].description
        headings = {} if name == BASIC else {field.path: heading_of(field.key) for field in fields}
        summary = self._summary(name, fields)
        return GroupState(name, title_of(name), about, summary, fields, loose, visible, headings)

    def _field(self, key: Key, path: KeyPath) -> FieldState:
        own, written = _at(self._table, path), self._written(path)
        if own is not _NOTHING and not isinstance(own, dict):
            written = own
        value = key.default if written is None else written
        inherited = own is _NOTHING and written is not None
        changed = written is not None and not same_value(plain(key, value), key.default)
        why = self._no_effect(key)
        state = FieldState(
            key,
            path,
            value,
            self._checked.literals.get(path, ""),
            own is not _NOTHING,
            inherited,
            changed,
            visible=not why or own is not _NOTHING,
            note=why if own is not _NOTHING and changed else "",
            problems=(mine := _of(path, self._problems)),
            remedies=tuple((each, self._remedies[each]) for each in mine if each in self._remedies),
        )
        if key.repeated and isinstance(value, list) and value:
            return replace(state, entries=tuple(self._entry(key, path, i) for i in range(len(value))))
        return state

    def _entry(self, table: Key, path: KeyPath, index: int) -> tuple[FieldState, ...]:
        return tuple(self._field(key, (*path, index, key.path[-1])) for key in keys_of_many(table))

    def _no_effect(self, key: Key) -> str:
        """Return why the key has no effect now; empty if it has."""
        if key.path[:1] == ("run",) and key.path[-1] in KINDS:
            return "" if key.path[-1] in (self._offered, self.kind) else f"a {self.kind} is run"
        if self.kind != "recipe" and is_for_recipes(key.path):
            return f"a {self.kind} ignores it; it is for recipes"
        if self.kind == "recipe" and key.path == ("run", "args"):
            return "a recipe takes no arguments"
        for name, values in key.visible_if.items():
            if name != "run.recipe" and self._effective(tuple(name.split("."))) not in values:
                return f"takes effect with {name} = {' or '.join(values)} only"
        return ""

    def _effective(self, path: tuple[str, ...]) -> Any:
        written = self._written(path)
        return all_keys(self._recipe)[path].default if written is None else written

    def _written(self, path: KeyPath) -> Any:
        """Return the value in this text and those it extends; None if absent, which TOML cannot express."""
        value = _at(self._checked.written, path)
        return None if value is _NOTHING else value

    def _summary(self, name: str, fields: Iterable[FieldState]) -> str:
        by_name = {field.key.path[-1]: field for field in fields if field.key.path[0] == name}
        parts = [by_name[key] for key in ESSENTIAL.get(name, ()) if key in by_name]
        said = [field for field in parts if field.visible and not field.note]
        return " · ".join(_brief(field) for field in said if field.value not in (None, []))


def _brief(field: FieldState) -> str:
    """Return a value with its unit or name, for a summary."""
    name = field.key.path[-1]
    if field.key.repeated:
        return f"{len(field.value)} × {name}" if isinstance(field.value, list) else name
    text = codec_of(field.key).show(field.value)
    number = isinstance(field.value, (int, float)) and not isinstance(field.value, bool)
    if field.literal and number:
        text = field.literal
    if field.key.is_path and "/" in text:
        text = text.rstrip("/").rpartition("/")[2]
    text = text if len(text) <= _SUMMARY else text[: _SUMMARY - 1] + "…"
    unit = field.key.unit or ""
    if name == "every" and number:
        return f"every {text} {unit}" if text != "1" else f"every {unit.removesuffix('s')}"
    if name in _WITH_UNIT:
        return f"{text} {unit}"
    return f"{name.replace('_', ' ')} {text}" if number or name in _NAMED else text


def _of(path: KeyPath, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems at the key or inside its value."""
    return tuple(problem for problem in problems if undotted(problem.path)[: len(path)] == path)


def _at(table: Any, path: KeyPath) -> Any:
    for key in path:
        inside = isinstance(table, list) and isinstance(key, int) and 0 <= key < len(table)
        if not inside and not (isinstance(table, dict) and key in table):
            return _NOTHING
        table = table[key]
    return table
