"""Checks that values read from JSON have the types that their class declares."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

_LARGEST = 2**63


class WrongTypeError(TypeError):
    """A value does not have its field's type; the message names the field."""


def check_fields(value: Any, where: str = "") -> None:
    """Check the fields of a dataclass's instance, and of those in it. Lists count as tuples.

    Integers are below 2**63 in magnitude, and floats are those that JSON has.

    Args:
        value: the instance.
        where: its name, for messages.

    Raises:
        WrongTypeError: a field is of another type.
    """
    kind: Any = type(value)
    for name, check in _checks_of(kind):
        check(getattr(value, name), f"{where}.{name}" if where else name)


_Check = Callable[[Any, str], None]


@cache
def _checks_of(kind: Any) -> tuple[tuple[str, _Check], ...]:
    hints = typing.get_type_hints(kind)
    return tuple((each.name, _check_for(hints[each.name])) for each in dataclasses.fields(kind))


def _check_for(hint: Any) -> _Check:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _optional(arguments)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return _items(_check_for(arguments[0]))
    if origin is tuple:
        return _row(tuple(map(_check_for, arguments)))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(_check_for(arguments[0]), _check_for(arguments[1]))
    if dataclasses.is_dataclass(hint):
        return _instance(hint)
    return _plain(hint)


def _plain(kind: Any) -> _Check:
    def check(value: Any, where: str) -> None:
        if kind is float:
            right = isinstance(value, (int, float)) and not isinstance(value, bool)
        elif kind is int:
            right = type(value) is int and abs(value) < _LARGEST
        else:
            right = kind is Any or type(value) is kind
        if not right:
            raise WrongTypeError(f"{where} is {repr(value)[:80]}, not {getattr(kind, '__name__', kind)}")

    return check


def _optional(hints: tuple[Any, ...]) -> _Check:
    checks = tuple(_check_for(hint) for hint in hints if hint is not type(None))

    def check(value: Any, where: str) -> None:
        if value is not None or type(None) not in hints:
            _first_that_fits(checks, value, where)

    return check


def _first_that_fits(checks: tuple[_Check, ...], value: Any, where: str) -> None:
    try:
        checks[0](value, where)
    except WrongTypeError:
        if len(checks) == 1:
            raise
        _first_that_fits(checks[1:], value, where)


def _items(item: _Check) -> _Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, (tuple, list)):
            raise WrongTypeError(f"{where} is {repr(value)[:80]}, not a list")
        for number, each in enumerate(value):
            item(each, f"{where}[{number}]")

    return check


def _row(items: tuple[_Check, ...]) -> _Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, (tuple, list)) or len(value) != len(items):
            raise WrongTypeError(f"{where} is {repr(value)[:80]}, not a list of {len(items)}")
        for item, each in zip(items, value):  # noqa: B905 - no strict in this Python; the lengths are equal
            item(each, where)

    return check


def _mapping(key: _Check, item: _Check) -> _Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            raise WrongTypeError(f"{where} is {repr(value)[:80]}, not an object")
        for name, each in value.items():
            key(name, where)
            item(each, f"{where}.{name}")

    return check


def _instance(kind: Any) -> _Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, kind):
            raise WrongTypeError(f"{where} is {repr(value)[:80]}, not a {kind.__name__}")
        check_fields(value, where)

    return check
