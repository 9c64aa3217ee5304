"""Merge of several sources into one config: base files, the run file, the command line; with the origin of
each key.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torchdeck.config.toml.document import KeyPath

EXCLUSIVE = (
    (("run", "recipe"), ("run", "script"), ("run", "module")),
    (("training", "steps"), ("training", "epochs")),
)
"""Keys of which only one may be given. A later layer's displaces an earlier one's: TOML cannot unset a key.
"""


@dataclass(frozen=True)
class Origin:
    """Location of a key."""

    file: str
    line: int | None
    folder: str
    """Absolute folder to which relative paths in the value are relative."""


@dataclass(frozen=True)
class Layer:
    """One source of values."""

    table: Mapping[str, Any]
    locate: Callable[[KeyPath], Origin]


class Merged:
    """Merged layers, later ones on top."""

    def __init__(self, root: Origin) -> None:
        self.table: dict[str, Any] = {}
        self._origins: dict[KeyPath, Origin] = {(): root}

    def origin(self, path: KeyPath) -> Origin:
        """Return where `path` is set, or the innermost table around it that is set anywhere."""
        while path not in self._origins:
            path = path[:-1]
        return self._origins[path]

    def place(self, name: str) -> tuple[str, int | None]:
        """Return file and line of the key of dotted name `name`, or of the table around it."""
        origin = self.origin(tuple(re.sub(r"\[\d+\]", "", name).split(".")))
        return origin.file, origin.line

    def has(self, path: KeyPath) -> bool:
        """Return whether `path` is set anywhere."""
        return path != () and path in self._origins

    def lay(self, layer: Layer) -> None:
        """Put `layer` on top: tables are merged, everything else is replaced."""
        for group in EXCLUSIVE:
            given = [path for path in group if _holds(layer.table, path)]
            for path in group if given else ():
                self.remove(path)
        self._merge(self.table, layer.table, (), layer)

    def remove(self, path: KeyPath) -> None:
        """Remove `path`, as if it had never been written."""
        table: Any = self.table
        for key in path[:-1]:
            table = table.get(key) if isinstance(table, dict) else None
        if isinstance(table, dict):
            table.pop(path[-1], None)
        self._forget(path)

    def _forget(self, path: KeyPath) -> None:
        for known in [known for known in self._origins if known[: len(path)] == path]:
            del self._origins[known]

    def _merge(self, into: dict[str, Any], table: Mapping[str, Any], parent: KeyPath, layer: Layer) -> None:
        for key, value in table.items():
            path = (*parent, key)
            if isinstance(value, dict) and isinstance(into.get(key), dict):
                self._origins[path] = layer.locate(path)
                self._merge(into[key], value, path, layer)
                continue
            if key in into:
                self._forget(path)
            into[key] = copy.deepcopy(value)
            self._note(value, path, layer)

    def _note(self, value: Any, path: KeyPath, layer: Layer) -> None:
        self._origins[path] = layer.locate(path)
        if isinstance(value, (dict, list)):
            below = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in below:
                self._note(item, (*path, key), layer)


def _holds(table: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    value: Any = table
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True
