"""Validators of messages between ranks about checkpoints: each raises ValueError."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, Manifest, parse_manifest

T = TypeVar("T")
_LONGEST_TEXT = 1 << 16
_LARGEST = 1 << 63


def nothing(value: Any) -> None:
    if value is not None:
        raise ValueError(f"{_shown(value)} came, and nothing was asked for")


def truth(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{_shown(value)} is neither true nor false")
    return value


def count(value: Any) -> int:
    """Return a whole number of at least 0 that fits into 64 bits."""
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise ValueError(f"{_shown(value)} is no whole number from 0")
    return value


def number(value: Any) -> float:
    """Return a finite number."""
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{_shown(value)} is no number")
    return float(value)


def text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise ValueError(f"{_shown(value)} is no text of at most {_LONGEST_TEXT} characters")
    return value


def file_name(value: Any) -> str:
    """Return a name in a folder, not a path."""
    name = text(value)
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{_shown(name)} is no file name")
    return name


def optional(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """Return a validator that accepts null, or what `read` accepts."""
    return lambda value: None if value is None else read(value)


def listed(read: Callable[[Any], T]) -> Callable[[Any], list[T]]:
    """Return a validator of a list of what `read` accepts."""

    def items(value: Any) -> list[T]:
        if type(value) is not list:
            raise ValueError(f"{_shown(value)} is no list")
        return [read(item) for item in value]

    return items


def by_name(read: Callable[[Any], T]) -> Callable[[Any], dict[str, T]]:
    """Return a validator of an object of file names, and what `read` accepts for each."""

    def entries(value: Any) -> dict[str, T]:
        if type(value) is not dict:
            raise ValueError(f"{_shown(value)} is no object")
        return {file_name(name): read(item) for name, item in value.items()}

    return entries


def manifest_of(folder: Path) -> Callable[[Any], Manifest]:
    """Return a validator of a rendered manifest of a checkpoint in `folder`. It raises CheckpointError if
    damaged.
    """
    return lambda value: parse_manifest(_whole_text(value).encode(), folder / MANIFEST_NAME)


def _whole_text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{_shown(value)} is no text")
    return value


def _shown(value: Any) -> str:
    return repr(value)[:60]
