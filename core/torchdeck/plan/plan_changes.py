"""Readable differences between two plans that execute different things."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from torchdeck.contract.plan.launch_plan import LaunchPlan

LIMIT = 12
"""Largest number of changes listed individually."""
CODE = frozenset(
    {".py", ".pyi", ".pyx", ".so", ".sh", ".toml", ".yaml", ".yml", ".json", ".cfg", ".ini", ".txt", ""}
)
"""File suffixes of relevant changes; other files in the folder are logs and results."""
_UNSEEN = ("name", "warnings", "prediction", "smaller", "version")


def plan_changes(before: LaunchPlan, after: LaunchPlan) -> tuple[str, ...]:
    """Return one sentence per relevant change, code first: at most `LIMIT`, then the number of the rest."""
    old, new = before.to_json(), after.to_json()
    sentences = [*_code(before.code.files, after.code.files)]
    for name in new:
        if name not in (*_UNSEEN, "code", "fingerprint"):
            sentences += _changes(name, old.get(name), new[name])
    if len(sentences) > LIMIT:
        return (*sentences[:LIMIT], f"and {len(sentences) - LIMIT} more")
    return tuple(sentences)


def _code(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*before, *after}):
        if PurePosixPath(name).suffix not in CODE:
            continue
        if name not in after:
            yield f"{name} is gone"
        elif name not in before:
            yield f"{name} is new"
        elif before[name] != after[name]:
            yield f"{name} was changed"


def _changes(name: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*before, *after)):
            yield from _changes(f"{name}.{key}", before.get(key), after.get(key))
    elif _is_list(before) and _is_list(after) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            label = other.get("name", other.get("rank", index)) if isinstance(other, Mapping) else index
            yield from _changes(f"{name}[{label}]", one, other)
    elif before != after:
        yield f"{name}: {_text(before)} → {_text(after)}"


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _text(value: Any) -> str:
    text = "–" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
