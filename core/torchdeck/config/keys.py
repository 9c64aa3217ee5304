"""Every key of run.toml with its metadata, read from the schema."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from torchdeck.config.problems import shown
from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.options import Section

_UNIT_NAMES = {"s": "seconds", "h": "hours"}

ValueType = Literal["bool", "int", "float", "str", "size", "list", "tuple", "dict"]
Conditions = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Key:
    """One key of run.toml, or one table if `section` is set."""

    path: tuple[str, ...]
    description: str
    expected: str
    """Description of a valid value, in words."""
    label: str = ""
    """Name for people, in sentence case."""
    default: Any = None
    unit: str | None = None
    group: str | None = None
    choices: tuple[str | int, ...] = ()
    types: tuple[ValueType, ...] = ()
    """Types it may have, besides its choices."""
    optional: bool = False
    """Whether it may be absent and then has no value, rather than a default."""
    takes_text: bool = False
    """Whether text is valid and a number is not."""
    is_path: bool = False
    free: bool = False
    """Whether it is a table with keys of the user's own."""
    visible_if: Conditions = field(default_factory=dict)
    """Other keys and the values for which this one has an effect."""
    section: type[Section] | None = None
    repeated: bool = False
    """Whether it is a table that may occur many times: [[cluster.nodes]]."""
    required: bool = False
    """Whether it is required if its table is present."""
    recipes: tuple[str, ...] = ()
    """Built-in recipes that have it as an option."""
    bounds: tuple[float | None, float | None] = (None, None)
    """Smallest and largest number that is valid; None: there is none, or it is excluded itself."""

    @property
    def name(self) -> str:
        """Dotted path."""
        return ".".join(self.path)

    @property
    def title(self) -> str:
        """Name as it is written in a file: tables in brackets."""
        if self.repeated:
            return f"[[{self.name}]]"
        return f"[{self.name}]" if self.section is not None or self.free else self.name


@cache
def all_keys(recipe: str | None = None) -> Mapping[tuple[str, ...], Key]:
    """Return every key and table by path, in the schema's order, including options of built-in recipes.

    Args:
        recipe: leave out the options of other built-in recipes. Without it an option that several recipes
            have is described as the first of them does.
    """
    found: dict[tuple[str, ...], Key] = {EXTENDS.path: EXTENDS}
    chosen = [recipe] if recipe in BUILTIN_RECIPES else list(BUILTIN_RECIPES)
    for key in _keys_of(RunConfig, (), {}, None):
        found[key.path] = key
        if key.path in RECIPE_TABLES:
            for name in chosen:
                for option in recipe_keys(name, key.path):
                    found[option.path] = (
                        _of_both(found[option.path], option) if option.path in found else option
                    )
    return found


RECIPE_TABLES = (("model",), ("data",))
"""Tables whose keys belong to the recipe."""


def recipe_keys(recipe: str, table: tuple[str, ...]) -> list[Key]:
    """Return the options of a built-in recipe in one of RECIPE_TABLES, as that recipe describes them."""
    section = BUILTIN_RECIPES[recipe][RECIPE_TABLES.index(table)]
    return list(_keys_of(section, table, {"run.recipe": [recipe]}, recipe))


def _of_both(first: Key, other: Key) -> Key:
    """Merge an option of one name in two recipes."""
    recipes = (*first.recipes, *other.recipes)
    return replace(first, recipes=recipes, visible_if={**first.visible_if, "run.recipe": recipes})


EXTENDS = Key(
    ("extends",),
    "Base run file: its values apply unless this file sets them. The path is relative to this file; a base "
    "may have a base of its own.",
    'the path of a run file, such as "base.toml"',
    "Base file",
    types=("str",),
    optional=True,
    takes_text=True,
    is_path=True,
)
"""The one key that the loader itself consumes."""


def keys_in(section: tuple[str, ...], recipe: str | None = None) -> list[str]:
    """Return the names allowed directly in table `section`, for a run of `recipe`; () is the root."""
    return [path[-1] for path in all_keys(recipe) if path[:-1] == section]


def _keys_of(
    section: type[Section], parent: tuple[str, ...], conditions: Conditions, recipe: str | None
) -> Iterator[Key]:
    for name, info in section.model_fields.items():
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        own: Any = extra.get("visible_if", {})
        visible_if = {**conditions, **own}
        path = (*parent, name)
        inner, repeated = _section(info.annotation)
        if inner is not None:
            names = ", ".join(inner.model_fields)
            expected = f"tables [[{'.'.join(path)}]]" if repeated else "a table"
            yield Key(
                path,
                str(info.description),
                f"{expected} with keys {names}",
                label_of(name, info),
                visible_if=visible_if,
                section=inner,
                repeated=repeated,
                recipes=() if recipe is None else (recipe,),
            )
            yield from _keys_of(inner, path, visible_if, recipe)
        else:
            yield _leaf(path, info, extra, visible_if, recipe)


def label_of(name: str, info: FieldInfo) -> str:
    """Return the label of a field: its own, or the words of its name."""
    return info.title or name.replace("_", " ").capitalize()


def _section(annotation: Any) -> tuple[type[Section] | None, bool]:
    """Return the schema of a table, and whether it is one of many; None if it is no table."""
    repeated = get_origin(annotation) is list
    inner = get_args(annotation)[0] if repeated else annotation
    if isinstance(inner, type) and get_origin(inner) is None and issubclass(inner, Section):
        return inner, repeated
    return None, False


def _leaf(
    path: tuple[str, ...],
    info: FieldInfo,
    extra: Mapping[str, Any],
    visible_if: Conditions,
    recipe: str | None,
) -> Key:
    parts = _alternatives(info.annotation)
    return Key(
        path,
        str(info.description),
        str(
            extra.get("right")
            or (
                "a path"
                if extra.get("path")
                else _expected(info.annotation, info.metadata, extra.get("unit"))
            )
        ),
        label_of(path[-1], info),
        default=None if info.is_required() else info.get_default(call_default_factory=True),
        required=info.is_required(),
        unit=extra.get("unit"),
        group=extra.get("group"),
        choices=tuple(choice for part in parts if get_origin(part) is Literal for choice in get_args(part)),
        types=_types(parts, info.metadata),
        optional=info.annotation is not parts[0] and type(None) in get_args(info.annotation),
        takes_text=str in parts,
        is_path=bool(extra.get("path")),
        free=any(get_origin(part) is dict for part in parts),
        visible_if=visible_if,
        recipes=() if recipe is None else (recipe,),
        bounds=_bounds([*info.metadata, *(item for part in parts for item in _metadata_of(part))]),
    )


def _metadata_of(part: Any) -> Sequence[Any]:
    """Return what an alternative such as Annotated[int, Field(ge=1)] says of its values."""
    found = getattr(part, "__metadata__", ())
    return [item for each in found for item in getattr(each, "metadata", [each])]


def _bounds(metadata: Sequence[Any]) -> tuple[float | None, float | None]:
    least, most = (
        next((getattr(item, name) for item in metadata if hasattr(item, name)), None) for name in ("ge", "le")
    )
    return least, most


def _types(parts: Sequence[Any], metadata: Sequence[Any]) -> tuple[ValueType, ...]:
    """Return the types in a file; a size is a number or a text with its unit, which a validator parses
    first.
    """
    found: list[ValueType] = []
    for part in parts:
        beside = [*metadata, *getattr(part, "__metadata__", ())]
        bare = get_args(part)[0] if get_origin(part) is Annotated else part
        if any(isinstance(item, BeforeValidator) for item in beside):
            found.append("size")
        elif get_origin(bare) is not Literal:
            found.append((get_origin(bare) or bare).__name__)
    return tuple(dict.fromkeys(found))


def _alternatives(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, types.UnionType):
        return [part for part in get_args(annotation) if part is not type(None)]
    return [annotation]


def _expected(annotation: Any, metadata: Sequence[Any], unit: str | None) -> str:
    """Describe a type and its limits in words."""
    if annotation is int or annotation is float:
        number = "a whole number" if annotation is int else "a number"
        return number + (f" of {_UNIT_NAMES.get(unit, unit)}" if unit else "") + _limits(metadata)
    origin = get_origin(annotation)
    if origin is Literal:
        return " or ".join(shown(choice) for choice in get_args(annotation))
    alternatives = _alternatives(annotation)
    if len(alternatives) > 1 or alternatives[0] is not annotation:
        return " or ".join(_expected(part, metadata, unit) for part in alternatives)
    if origin is list:
        return "a list"
    return {bool: "true or false", str: "text"}.get(annotation, "a table")


def _limits(metadata: Sequence[Any]) -> str:
    """Describe the range in words: pydantic keeps it as annotated_types.Ge, Gt, Le and Lt."""
    limits = {
        name: getattr(item, name)
        for item in metadata
        for name in ("ge", "gt", "le", "lt")
        if hasattr(item, name)
    }
    if "ge" in limits and "le" in limits:
        return f" from {limits['ge']} to {limits['le']}"
    if "ge" in limits and "lt" in limits:
        return f" from {limits['ge']}, below {limits['lt']}"
    words = {"ge": "at least", "gt": "greater than", "le": "at most", "lt": "below"}
    return "".join(f", {words[name]} {limit}" for name, limit in limits.items())
