"""Whether a value fits the annotation of a parameter: a check of kinds, not of what containers hold."""

from __future__ import annotations

import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a text",
    types.NoneType: "None",
    dict: "a dict",
    Mapping: "a mapping",
    Sequence: "a sequence",
    list: "a list",
}


def fits(value: Any, hint: Any) -> bool:
    """Return whether `value` may be given for `hint`; True if the check cannot tell.

    NumPy's numbers count as numbers, a whole number as a float; True and False are no numbers.
    """
    if isinstance(hint, typing.TypeVar) or hint in (Any, object):
        return True
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, part) for part in arguments)
    if origin is typing.Literal:
        return any(type(value) is type(choice) and value == choice for choice in arguments)
    if hint is None or hint is types.NoneType:
        return value is None
    if origin is tuple:
        return isinstance(value, (tuple, list)) and (arguments[-1:] == (...,) or len(value) == len(arguments))
    if Callable in (hint, origin):
        return callable(value)
    return _is_a(value, origin or hint)


def _is_a(value: Any, kind: Any) -> bool:
    if kind is int:
        return hasattr(value, "__index__") and not isinstance(value, bool)
    if kind is float:
        return hasattr(value, "__float__") and not isinstance(value, bool)
    if kind is bool:
        return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")
    if kind is Sequence:
        is_text = isinstance(value, (str, bytes))
        return not is_text and hasattr(value, "__getitem__") and hasattr(value, "__len__")
    if kind is os.PathLike:
        return isinstance(value, os.PathLike)
    if typing.is_typeddict(kind):
        return isinstance(value, Mapping)
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    return isinstance(value, kind)


def described(hint: Any) -> str:
    """Return the values that `hint` allows, in words."""
    if hint in _WORDS:
        return _WORDS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in _WORDS:
        return _WORDS[origin]
    if origin in (types.UnionType, typing.Union):
        return " or ".join(dict.fromkeys(described(part) for part in arguments))
    if origin is typing.Literal:
        return " or ".join(map(repr, arguments))
    if origin is tuple:
        return _several(arguments)
    if Callable in (hint, origin):
        return "a function"
    return str(getattr(origin or hint, "__name__", hint))


def _several(parts: tuple[Any, ...]) -> str:
    count = "two" if len(parts) == 2 else str(len(parts))
    if parts[-1:] == (...,):
        return "a tuple"
    return f"{count} numbers" if set(parts) <= {int, float} else f"{count} values"
