"""The schema for people and programs: the JSON schema, a reference of every key, and one key explained."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torchdeck.config.basic_settings import find_keys
from torchdeck.config.keys import RECIPE_TABLES, Key, all_keys, recipe_keys
from torchdeck.config.problems import dotted, shown
from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.config.spelling import advice, meant_by
from torchdeck.contract.refusal import Refusal

DEFAULT_LIMIT = 200
"""Characters of a default."""


class UnknownKeyError(Refusal, ValueError):
    """The run file schema has no such key."""

    page = "reference/run-toml"


def json_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a run file, including `extends` and the built-in recipes'
    options.
    """
    schema = RunConfig.model_json_schema()
    properties = schema["properties"]
    extends = all_keys()[("extends",)]
    properties["extends"] = {"type": "string", "title": "Extends", "description": extends.description}
    definitions = schema["$defs"]
    for recipe, sections in BUILTIN_RECIPES.items():
        for table, section in zip(("model", "data"), sections, strict=True):
            definitions[section.__name__] = section.model_json_schema()
            condition = {
                "properties": {"run": {"properties": {"recipe": {"const": recipe}}, "required": ["recipe"]}}
            }
            then = {"properties": {table: {"$ref": f"#/$defs/{section.__name__}"}}}
            schema.setdefault("allOf", []).append({"if": {**condition, "required": ["run"]}, "then": then})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Torchdeck run file",
        "description": "A run.toml: what to run, on how many ranks, and how it is supervised.",
    }


def reference() -> str:
    """Return every key of a run file as Markdown: one heading per table, one row per key."""
    lines = [
        "# Keys of a run file",
        "",
        "Generated from the schema by `torchdeck schema --docs`; `torchdeck schema KEY` explains one key.",
        "Integers are accepted as numbers; no other type is converted.",
        "",
        "| key | name | value | default | meaning |",
        "|---|---|---|---|---|",
    ]
    keys = all_keys().values()
    lines += [_row(key) for key in keys if len(key.path) == 1 and key.section is None and not key.free]
    for table in keys:
        if table.section is None and not table.free:
            continue
        if table.path in RECIPE_TABLES:
            for recipe in BUILTIN_RECIPES:
                lines += _rows(f"{table.title} of {recipe}", "", recipe_keys(recipe, table.path))
        else:
            inside = [key for key in keys if key.path[:-1] == table.path and key.section is None]
            lines += _rows(table.title, table.description, inside)
    return "\n".join(lines) + "\n"


def _rows(title: str, description: str, keys: Sequence[Key]) -> list[str]:
    """Return a heading and a row for each key; nothing if there are none."""
    if not keys:
        return []
    lines = ["", f"## {title}", "", *([description, ""] if description else [])]
    return [*lines, "| key | name | value | default | meaning |", "|---|---|---|---|---|", *map(_row, keys)]


def explain(name: str) -> str:
    """Explain one key, or one table and its keys, for a terminal.

    Raises:
        UnknownKeyError: unknown key; the message names the nearest.
    """
    key = _known(name)
    text = [key.title, f"  {key.label}", f"  {key.description}", ""]
    inside = [known for known in all_keys().values() if known.path[:-1] == key.path]
    if key.section is None:
        text.append(f"  value    {key.expected}")
        if not key.free or key.default:
            text.append(f"  default  {default_of(key)}")
        if key.unit:
            text.append(f"  unit     {key.unit}")
        text.append(f"  example  {on_command_line(key)}")
    for other, values in key.visible_if.items():
        text.append(f"  has an effect with {other} = {' or '.join(shown(value) for value in values)}")
    width = max((len(known.path[-1]) for known in inside), default=0)
    text += [f"  {known.path[-1]:<{width}}  {known.description}" for known in inside]
    return "\n".join(text) + "\n"


@dataclass(frozen=True)
class KeyHelp:
    """Help of one key in full."""

    label: str
    name: str
    description: str
    facts: tuple[tuple[str, str], ...]
    """Its facts, each with a name."""
    page: str
    """Its place in the reference, as `torchdeck docs` takes it."""


def help_of(key: Key) -> KeyHelp:
    """Return the help of a key in full."""
    facts = [("Expected", key.expected)]
    if key.section is None and (not key.free or key.default):
        facts.append(("Default", default_of(key)))
    if key.unit:
        facts.append(("Unit", key.unit))
    facts.append(("In the file", in_file(key)))
    if key.section is None and not (key.free and len(key.path) == 1):
        facts.append(("Command line", on_command_line(key)))
    for other, values in key.visible_if.items():
        facts.append(("Takes effect with", f"{other} = {' or '.join(shown(value) for value in values)}"))
    return KeyHelp(key.label, key.name, key.description, tuple(facts), _page_of(key))


def _page_of(key: Key) -> str:
    """Return the address of the key's table in the reference, whose headings are those of `reference`."""
    is_table = key.section is not None or (key.free and len(key.path) == 1)
    table = key.path if is_table else key.path[:-1]
    heading = "".join(table)
    if table in RECIPE_TABLES:
        recipes = key.recipes or tuple(BUILTIN_RECIPES)
        heading += f"-of-{recipes[0]}"
    return f"reference/run-toml#{heading}" if heading else "reference/run-toml"


def found(words: str) -> str:
    """Return the keys that have all of `words` in names or description, one a line, for a terminal."""
    keys = find_keys(words)
    width = max((len(key.name) for key in keys), default=0)
    return "".join(f"{key.name:<{width}}  {key.label}\n" for key in keys)


def facts(name: str) -> dict[str, Any]:
    """Return the content of `explain` for programs.

    Raises:
        UnknownKeyError: unknown key; the message names the nearest.
    """
    key = _known(name)
    return {
        "key": key.name,
        "label": key.label,
        "description": key.description,
        "value": key.expected,
        "default": key.default,
        "unit": key.unit,
        "choices": list(key.choices),
        "visible_if": {other: list(values) for other, values in key.visible_if.items()},
        "recipes": list(key.recipes),
        "keys": [known.path[-1] for known in all_keys().values() if known.path[:-1] == key.path],
    }


def _known(name: str) -> Key:
    path = tuple(part.strip() for part in name.strip().strip("[]").split("."))
    key = all_keys().get(path)
    if key is None:
        raise UnknownKeyError(f"there is no key {dotted(path)}; expected {advice(path, meant_by(path))}")
    return key


def _row(key: Key) -> str:
    condition = "".join(
        f" Only with `{other}` = {' or '.join(shown(value) for value in values)}."
        for other, values in key.visible_if.items()
        if other != "run.recipe"
    )
    cells = (f"`{key.path[-1]}`", key.label, key.expected, default_of(key), key.description + condition)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def default_of(key: Key) -> str:
    """Return the default as in a run file, or `none` or `required`."""
    if key.required:
        return "required"
    return "none" if key.default is None else _shown(key.default, key.unit)


def _shown(value: Any, unit: str | None) -> str:
    """Format a value as in a run file; large byte counts as a size, which is easier to read."""
    mebibytes, rest = divmod(value, 2**20) if unit == "bytes" and isinstance(value, int) else (0, 1)
    return shown(f"{mebibytes}MiB") if mebibytes and not rest else shown(value, DEFAULT_LIMIT)


def on_command_line(key: Key) -> str:
    """Return how the key is given on the command line, with an example value."""
    repeated = next((key.path[:n] for n in range(len(key.path)) if _is_repeated(key.path[:n])), None)
    if repeated is not None:  # one of many tables cannot be named there
        return f"in a table [[{dotted(repeated)}]] of the file"
    value = _example(key)
    plain = re.fullmatch(r'"([\w./-]+)"', value)
    return (
        f"--set {key.name}={plain[1]}" if plain is not None else f"--set {shlex.quote(f'{key.name}={value}')}"
    )


def in_file(key: Key) -> str:
    """Return how the key is written in a run file, with an example value; a table by its heading alone."""
    if key.section is not None or (key.free and len(key.path) == 1):
        return key.title
    *table, name = key.path
    heading = dotted(table)
    brackets = f"[[{heading}]]\n" if _is_repeated(tuple(table)) else f"[{heading}]\n" if table else ""
    return f"{brackets}{name} = {_example(key)}"


_BY_UNIT = {"steps": 100, "samples": 64, "s": 60, "h": 2, "ranks": 2}
_BY_TYPE = {"list": [], "dict": {}, "bool": True, "float": 0.5, "size": "2GB"}
_NAMED = re.compile(r"""(?:^|such as |, or )("[^"]*"|\[.*\]|\{.*\}|[0-9][0-9.e+-]*)""")


def _example(key: Key) -> str:
    """Return a valid value as in a run file: the default, one that `expected` names, or one of its type."""
    if key.default not in (None, [], {}) and not key.required:
        return _shown(key.default, key.unit)
    if key.choices and not key.types:
        return shown(key.choices[0])
    if key.unit in _BY_UNIT and {"int", "float"} & set(key.types):
        return shown(_BY_UNIT[key.unit])
    named = _NAMED.search(key.expected)
    if named is not None and _is_toml(f"value = {named[1]}"):
        return named[1]
    by_type = "path" if key.is_path else "text" if "str" in key.types else 1
    return shown(next((_BY_TYPE[one] for one in key.types if one in _BY_TYPE), by_type))


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _is_repeated(path: tuple[str, ...]) -> bool:
    return path in all_keys() and all_keys()[path].repeated
