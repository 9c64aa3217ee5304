"""Converts JSON objects into dataclasses with every field checked: input from other processes is
untrusted.
"""

from __future__ import annotations

import dataclasses
import operator
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from torchdeck.contract.arguments.errors import nearest
from torchdeck.contract.arguments.types import described
from torchdeck.contract.refusal import Refusal

T = TypeVar("T")


class SettingsError(Refusal, ValueError):
    """Settings are invalid; the message names the field and what is expected."""

    page = "library"


OTHERS = {"others": True}
"""Metadata of the field that receives objects whose names are not fields."""


def read_fields(cls: type[T], value: Any, path: str) -> T:
    """Return a `cls` (dataclass) from the JSON object `value`.

    Fields may be bool, int, float, str, dict, Literal, a tuple, any of these or None, or another such
    dataclass. A whole number is accepted for a float; nothing else is converted.

    Args:
        cls: a dataclass; a field with a default may be missing.
        value: from JSON.
        path: location of the value, for messages: "training" makes "training.lr", and "" makes "lr".

    Raises:
        SettingsError: unknown, missing or wrong fields.
    """
    if not isinstance(value, Mapping):
        raise SettingsError(f"{path} is {value!r}", fix="expected a mapping of names to values")
    hints = typing.get_type_hints(cls)
    prefix = f"{path}." if path else ""
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]  # T is a dataclass
    others = next((name for name, field in fields.items() if field.metadata == OTHERS), None)
    if others is not None:
        named = {name: item for name, item in value.items() if name in fields or not isinstance(item, dict)}
        value = named | {others: {name: item for name, item in value.items() if name not in named}}
    unknown = sorted(set(value) - set(fields), key=str)
    if unknown:
        near = nearest(str(unknown[0]), fields)
        raise SettingsError(
            f"{path} has unknown fields {', '.join(map(str, unknown))}",
            f"known are {', '.join(fields)}",
            f"did you mean {near!r}?" if near else "leave them out",
        )
    read: dict[str, Any] = {}
    for name, field in fields.items():
        if name in value:
            read[name] = _read(hints[name], value[name], f"{prefix}{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise SettingsError(f"{prefix}{name} is missing", fix=f"give {name}")
    return cls(**read)


def _read(hint: Any, value: Any, path: str) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return read_fields(hint, value, path)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and types.NoneType in arguments:
            return None
        (inner,) = [argument for argument in arguments if argument is not types.NoneType]
        return _read(inner, value, path)
    if origin is typing.Literal:
        if not any(type(value) is type(choice) and value == choice for choice in arguments):
            raise SettingsError(
                f"{path} is {value!r}", fix=f"expected one of {', '.join(map(repr, arguments))}"
            )
        return value
    if origin is tuple and arguments[1:] == (...,):
        if not isinstance(value, (list, tuple)):
            raise SettingsError(f"{path} is {value!r}", fix="expected a list")
        return tuple(_read(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if origin is tuple:
        if not isinstance(value, (list, tuple)) or len(value) != len(arguments):
            raise SettingsError(f"{path} is {value!r}", fix=f"expected {len(arguments)} values")
        return tuple(
            _read(inner, item, f"{path}[{i}]")
            for i, (inner, item) in enumerate(zip(arguments, value, strict=True))
        )
    return _plain(origin or hint, value, path)


def _plain(kind: Any, value: Any, path: str) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if kind is int and hasattr(value, "__index__") and not isinstance(value, bool):
        return operator.index(value)  # such as one of NumPy
    if kind is float and isinstance(value, float):
        return float(value)
    if type(value) is not kind:
        raise SettingsError(f"{path} is {value!r}", fix=f"expected {described(kind)}")
    return value
