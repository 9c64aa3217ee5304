"""Small JSON files that persist window state: read with care; unreadable ones are renamed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from torchdeck.contract.bounded_file import read_bounded
from torchdeck.contract.bounded_json import JsonError, parse_json

_LARGEST = 32 << 20
"""Maximum size in bytes; unsaved texts are included."""
_ASIDE = 100
"""Maximum number of names tried for a renamed file."""


class Kept(NamedTuple):
    """Content of a file."""

    value: Mapping[str, Any] = MappingProxyType({})
    """Empty if there was no file or no usable one."""
    said: str = ""
    """Why it was not used, and its new location; else empty."""


def read_kept(path: Path, version: int) -> Kept:
    """Return the table in `path`; a damaged file or one of a newer version is renamed and left alone.

    Args:
        path: a JSON file whose `version` determines how to read it.
        version: the newest supported version.
    """
    try:
        text = read_bounded(path, _LARGEST)
    except FileNotFoundError:
        return Kept()
    except OSError as error:
        return Kept(said=f"{path} cannot be read ({error.strerror}), so the window starts afresh.")
    try:
        value = parse_json(text)
    except JsonError:
        return Kept(said=_set_aside(path, "is damaged"))
    if not isinstance(value, dict) or type(value.get("version")) is not int:
        return Kept(said=_set_aside(path, "is damaged"))
    if value["version"] > version:
        return Kept(said=_set_aside(path, "was written by a newer Torchdeck"))
    return Kept(value)


def _set_aside(path: Path, what: str) -> str:
    beside = (path.with_name(f"{path.name}.kept{number or ''}") for number in range(_ASIDE))
    aside = next((name for name in beside if not name.exists()), None)
    if aside is None:
        return f"{path} {what}, so the window starts afresh; {_ASIDE} such files are beside it already."
    try:
        path.rename(aside)
    except OSError as error:
        return f"{path} {what}, so the window starts afresh; it could not be set aside ({error.strerror})."
    return f"{path} {what}, so the window starts afresh; the file is now {aside.name}."
