"""Validation of a merged table: a RunConfig, or everything that is wrong with it."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from torchdeck.config.keys import Key, all_keys
from torchdeck.config.layers import Merged
from torchdeck.config.problems import ConfigError, Problem, dotted, kind, shown
from torchdeck.config.remedies import UNKNOWN
from torchdeck.config.rules.contradictions import contradictions
from torchdeck.config.rules.findings import Finding, Given
from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.config.spelling import advice, meant_by, nearest
from torchdeck.config.toml.document import KeyPath
from torchdeck.options import Section

RANGE_ERRORS = ("greater_than", "less_than", "too_short", "too_long", "string_pattern")


def validate(merged: Merged) -> RunConfig:
    """Return the config in `merged`, with all of a built-in recipe's options filled in.

    Raises:
        ConfigError: with every problem, in the order of files and lines.
    """
    table = merged.table
    findings = {finding.path: finding for finding in _insane(table, ())}
    doubtful: list[KeyPath] = list(findings)
    for path, error in _schema_errors(table):
        if any(path[: len(bad)] == bad for bad in findings):
            continue
        finding, meant = _explained(path, error, table)
        findings.setdefault(path, finding)
        doubtful += [path, *meant]
    pruned = table
    for path in findings:
        pruned = _without(pruned, path)
    config = _with_recipe_options(RunConfig.model_validate(pruned))
    if ("extends",) not in doubtful:  # without the base file it is unknown what is missing
        for finding in contradictions(Given(config, merged.has), tuple(doubtful)):
            findings.setdefault(finding.path, finding)
    if findings:
        raise ConfigError(_problems(findings.values(), merged))
    return config


def _problems(findings: Any, merged: Merged) -> list[Problem]:
    located = [(merged.origin(finding.path), finding) for finding in findings]
    files = list(dict.fromkeys(origin.file for origin, _ in located))
    located.sort(key=lambda pair: (files.index(pair[0].file), pair[0].line or 0))
    return [
        Problem(dotted(finding.path), origin.file, origin.line, finding.wrong, finding.right)
        for origin, finding in located
    ]


def _insane(value: Any, path: KeyPath) -> Iterator[Finding]:
    """Yield values that no table may hold, because they could not reach a process as JSON or an argument."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _insane(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _insane(item, (*path, index))
    elif isinstance(value, str) and "\0" in value:
        yield Finding(path, "there is a NUL character in it", "text without \\u0000")
    elif isinstance(value, float) and not math.isfinite(value):
        yield Finding(path, f"{shown(value)} is not a finite number", "a finite number")
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield Finding(path, f"{shown(value)} is out of range", "a whole number that fits in 64 bits")
    elif isinstance(value, (dt.date, dt.time)) and path[0] in ("model", "data"):
        yield Finding(path, f"{shown(str(value))} is {kind(value)}", "text in quotes, or a number")


def _schema_errors(table: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """Yield pydantic's errors, one for each key, at the key's path."""
    found: dict[KeyPath, Mapping[str, Any]] = {}
    sections: list[tuple[type[Section], KeyPath, Any]] = [(RunConfig, (), table)]
    sections += _recipe_tables(table)
    for section, prefix, value in sections:
        try:
            section.model_validate(value)
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_context=False, include_input=False):
                path = _key_of((*prefix, *detail["loc"]), table)
                if path not in found or _is_range(detail):
                    found[path] = detail
    # of a union's errors the innermost is the most precise: that an element is wrong, not that a list is no
    # word
    inner = {path[:length] for path in found for length in range(len(path))}
    yield from ((path, detail) for path, detail in found.items() if path not in inner)


def _recipe_tables(table: Mapping[str, Any]) -> list[tuple[type[Section], KeyPath, Any]]:
    """Return the tables of a built-in recipe with their schemas; none if something else is run."""
    sections = BUILTIN_RECIPES.get(_recipe_of(table) or "")
    if sections is None:
        return []
    pairs = zip(sections, ("model", "data"), strict=True)
    return [(section, (name,), table[name]) for section, name in pairs if isinstance(table.get(name), dict)]


def _recipe_of(table: Mapping[str, Any]) -> str | None:
    """Return the recipe that [run] names, if it is a text."""
    run = table.get("run")
    recipe = run.get("recipe") if isinstance(run, dict) else None
    return recipe if isinstance(recipe, str) else None


def _key_of(loc: tuple[int | str, ...], table: Mapping[str, Any]) -> KeyPath:
    """Return the part of pydantic's location that is in the table: its end may name members of unions."""
    path: KeyPath = ()
    value: Any = table
    for step in loc:
        if isinstance(step, str) and isinstance(value, list):
            continue  # the union member that the list was tried as
        inside = isinstance(value, dict) and step in value
        if not inside and not (isinstance(value, list) and isinstance(step, int) and step < len(value)):
            break
        path, value = (*path, step), value[step]
    return path


def _is_range(error: Mapping[str, Any]) -> bool:
    return any(part in error["type"] for part in RANGE_ERRORS)


def _explained(
    path: KeyPath, error: Mapping[str, Any], table: Mapping[str, Any]
) -> tuple[Finding, list[KeyPath]]:
    """Describe the problem at `path`, and the keys that may have been meant."""
    if error["type"] == "extra_forbidden":
        return _unknown(path, _recipe_of(table))
    if error["type"] == "missing" and isinstance(error["loc"][-1], str):
        return _missing(path, error["loc"][-1], table), []
    return _misfit(path, error, table), []


def _missing(path: KeyPath, name: str, table: Mapping[str, Any]) -> Finding:
    key = _key((*path, name), _recipe_of(table))
    return Finding(path, f"there is no {name} in it", f"{name}, {key.expected}" if key is not None else name)


def _unknown(path: KeyPath, recipe: str | None) -> tuple[Finding, list[KeyPath]]:
    names = tuple(key for key in path if isinstance(key, str))  # elements of a list are alike
    meant = meant_by(names, recipe)
    return Finding(path, UNKNOWN, advice(names, meant, recipe)), list(meant)


def _misfit(path: KeyPath, error: Mapping[str, Any], table: Mapping[str, Any]) -> Finding:
    """Report a value of the wrong type or out of its range."""
    value: Any = table
    for step in path:
        value = value[step]
    key = _key(path, _recipe_of(table))
    right = key.expected if key is not None else str(error["msg"])
    if _is_range(error):
        wrong = (
            f"{shown(value)} is out of range"
            if isinstance(value, (int, float))
            else f"{shown(value)} is not valid"
        )
    elif key is not None and key.choices and isinstance(value, str):
        wrong = f"{shown(value)} is not one of the choices"
        near = nearest(value, [choice for choice in key.choices if isinstance(choice, str)])
        right = f"{shown(near[0])}; the choices are {right}" if near else right
    elif key is not None and isinstance(value, str) and error["type"] == "value_error":
        wrong = f"{shown(value)} is not a {'speed' if key.unit == 'bytes/s' else 'size'}"
    else:
        wrong = f"{shown(value)} is {kind(value)}"
    return Finding(path, wrong, right)


def _key(path: KeyPath, recipe: str | None) -> Key | None:
    """Return the definition of a key in a run of `recipe`, or of the list or free table around it."""
    names = tuple(step for step in path if isinstance(step, str))
    known = all_keys(recipe)
    while names and names not in known:
        names = names[:-1]
    return known.get(names)


def _without(value: Any, path: KeyPath) -> Any:
    """Return a copy of the table without the value at `path`; a list is dropped whole."""
    if not path:
        return {}
    first, rest = path[0], path[1:]
    if not isinstance(value, dict) or first not in value:
        return value
    if rest and isinstance(value[first], dict):
        return {**value, first: _without(value[first], rest)}
    return {key: item for key, item in value.items() if key != first}


def _with_recipe_options(config: RunConfig) -> RunConfig:
    """Return the config with every option of a built-in recipe written out."""
    sections = BUILTIN_RECIPES.get(config.run.recipe or "")
    if sections is None:
        return config
    model, data = sections
    options = {"model": model.model_validate(config.model), "data": data.model_validate(config.data)}
    return config.model_copy(update={name: section.model_dump() for name, section in options.items()})
