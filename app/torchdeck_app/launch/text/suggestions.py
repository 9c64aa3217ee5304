"""Completions at a spot of a run file, and help for keys; from the schema."""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple

from torchdeck.config.keys import Key, all_keys
from torchdeck.config.problems import dotted, shown
from torchdeck.config.schema import BUILTIN_RECIPES
from torchdeck_app.launch.text.toml_context import Spot


class Suggestion(NamedTuple):
    """Suggested completion."""

    insert: str
    """Text that replaces the input."""
    label: str
    help: str
    """Help in one line."""


def suggestions(spot: Spot, recipe: str | None) -> list[Suggestion]:
    """Return suggestions that fit the spot and continue its input.

    Args:
        spot: the cursor context.
        recipe: the run's built-in recipe, whose options are known.
    """
    made = {"key": _keys, "table": _tables, "value": _values}.get(spot.kind)
    found = [] if made is None else made(spot, recipe)
    typed = spot.typed.strip().strip("\"'[ ").lower()
    begin = [item for item in found if item.label.lower().strip("\"'[").startswith(typed)]
    inside = [item for item in found if typed in item.label.lower() and item not in begin]
    return [*begin, *inside]


def explained(path: tuple[str, ...], recipe: str | None) -> str:
    """Return a key's help as rich text; empty for a key that is not in the schema."""
    key = _known(recipe).get(path)
    if key is None:
        return ""
    rows = [f"<b>{escape(key.title)}</b>", escape(key.description)]
    if key.section is None:
        rows.append(f"Value: {escape(key.expected)}")
        if key.default is not None and not key.free:
            rows.append(f"Default: {escape(_default(key))}")
    rows += [
        f"Has an effect with {escape(other)} = {escape(' or '.join(shown(value) for value in values))}"
        for other, values in key.visible_if.items()
        if other != "run.recipe"
    ]
    return "<qt>" + "<br>".join(rows) + "</qt>"


def _keys(spot: Spot, recipe: str | None) -> list[Suggestion]:
    return [
        Suggestion(f"{_name(key.path[-1])} = ", key.path[-1], key.description)
        for key in _known(recipe).values()
        if key.path[:-1] == spot.table and key.section is None and key.path[-1] not in spot.written
    ]


def _tables(_spot: Spot, recipe: str | None) -> list[Suggestion]:
    return [
        Suggestion(_title(key), _title(key), key.description)
        for key in _known(recipe).values()
        if key.section is not None or key.free
    ]


def _values(spot: Spot, recipe: str | None) -> list[Suggestion]:
    key = _known(recipe).get(spot.key)
    if key is None or key.section is not None:
        return []
    values: dict[str, str] = {}
    if spot.key == ("run", "recipe"):
        values |= {shown(name): "comes with Torchdeck" for name in BUILTIN_RECIPES}
    values |= {shown(choice): "" for choice in key.choices}
    if isinstance(key.default, bool):
        values |= {"true": "", "false": ""}
    if key.default is not None and not key.free:
        default = _default(key)
        values[default] = f"default{f', {key.unit}' if key.unit else ''}"
    return [Suggestion(text, text, note or key.expected) for text, note in values.items()]


def _known(recipe: str | None) -> Any:
    return all_keys(recipe if recipe in BUILTIN_RECIPES else None)


def _default(key: Key) -> str:
    return shown(list(key.default) if isinstance(key.default, tuple) else key.default)


def _name(name: str) -> str:
    return dotted((name,))


def _title(key: Key) -> str:
    return f"[[{key.name}]]" if key.repeated else f"[{key.name}]"
