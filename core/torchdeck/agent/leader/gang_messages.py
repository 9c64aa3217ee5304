"""Events and commands as JSON, by their names; what comes in is checked field by field. Pure."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from typing import Any, get_args, get_origin

from torchdeck.agent.gang import commands, events
from torchdeck.contract.run_states import TextEnum

_UNIONS = (typing.Union, types.UnionType)
_WHOLE_LIMIT = 1 << 63
"""Limit of whole numbers: no step, rank or port comes near."""


class MessageError(ValueError):
    """Invalid event or command; the message says which field is wrong."""


def to_json(message: events.Event | commands.Command) -> dict[str, Any]:
    """`{"is": name, field: value, …}` of plain values."""
    return {"is": type(message).__name__, **_fields(message)}


def event_from_json(value: object) -> events.Event:
    """The event in `value`. Raises MessageError."""
    event: events.Event = _message(value, _EVENTS)
    return event


def command_from_json(value: object) -> commands.Command:
    """The command in `value`. Raises MessageError."""
    command: commands.Command = _message(value, _COMMANDS)
    return command


def number_of(message: Mapping[str, Any], name: str) -> float:
    """The finite number `name` of a message. Raises MessageError."""
    value = message.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < _WHOLE_LIMIT:
        raise MessageError(f"{name} is {_shown(value)}, not a number")
    return float(value)


def _fields(message: Any) -> dict[str, Any]:
    return {name: _plain(item) for name, item in message._asdict().items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return _fields(value) if hasattr(value, "_fields") else [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return value


def _message(value: object, kinds: Mapping[str, Any]) -> Any:
    name = value.get("is") if isinstance(value, dict) else None
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is None or not isinstance(value, dict):
        raise MessageError(f"{_shown(name)} is none of {', '.join(kinds)}")
    return _tuple({field: item for field, item in value.items() if field != "is"}, kind, kind.__name__)


def _tuple(value: object, kind: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise MessageError(f"{where} is {type(value).__name__}, not an object")
    hints = _hints(kind)
    unknown = set(value) - set(hints)
    missing = set(hints) - set(value) - set(kind._field_defaults)
    if unknown or missing:
        names = f"{where} has {sorted(unknown)} that it should not, and lacks {sorted(missing)}"
        raise MessageError(names[:400])
    return kind(**{name: _checked(item, hints[name], f"{where}.{name}") for name, item in value.items()})


def _checked(value: object, kind: Any, where: str) -> Any:
    """`value` as a `kind`, an annotation of a message's field. Raises MessageError."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return _shallow(value, where)
    if origin in _UNIONS:
        if value is None and type(None) in arguments:
            return None
        return _checked(value, next(item for item in arguments if item is not type(None)), where)
    if origin is tuple:
        if not isinstance(value, list):
            raise MessageError(f"{where} is {type(value).__name__}, not a list")
        return tuple(_checked(item, arguments[0], where) for item in value)
    if origin is not None:  # Mapping[str, Any]
        if not isinstance(value, dict):
            raise MessageError(f"{where} is {type(value).__name__}, not an object")
        return {name: _shallow(item, f"{where}.{name[:40]}") for name, item in value.items()}
    if hasattr(kind, "_fields"):
        return _tuple(value, kind, where)
    if issubclass(kind, TextEnum):
        return _member(value, kind, where)
    if type(value) is int and abs(value) >= _WHOLE_LIMIT:
        raise MessageError(f"{where} is larger than any number of a run")
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind or (isinstance(value, float) and not math.isfinite(value)):
        raise MessageError(f"{where} is {_shown(value)}, not {kind.__name__}")
    return value


def _member(value: object, kind: type[TextEnum], where: str) -> TextEnum:
    try:
        return kind(value)
    except ValueError:
        raise MessageError(f"{where} is {_shown(value)}, none of {', '.join(kind)}") from None


def _shallow(value: object, where: str) -> object:
    """A plain value of any kind: what is nested deeper could not be written down again."""
    if isinstance(value, (list, dict)):
        raise MessageError(f"{where} is {type(value).__name__}, not a plain value")
    return value


def _shown(value: object) -> str:
    return type(value).__name__ if isinstance(value, (list, dict)) else repr(value)[:40]


_known_hints: dict[Any, dict[str, Any]] = {}


def _hints(kind: Any) -> dict[str, Any]:
    if kind not in _known_hints:
        _known_hints[kind] = typing.get_type_hints(kind)
    return _known_hints[kind]


_EVENTS: Mapping[str, Any] = {kind.__name__: kind for kind in get_args(events.Event)}
_COMMANDS: Mapping[str, Any] = {kind.__name__: kind for kind in get_args(commands.Command)}
