"""Recently opened files, newest first."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

LIMIT = 10


class RecentFiles:
    """List of at most ten files."""

    def __init__(self) -> None:
        self._paths: list[Path] = []

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(self._paths)

    def add(self, path: Path) -> None:
        """Add `path`, which was just opened or saved."""
        self._paths = [path, *(other for other in self._paths if other != path)][:LIMIT]

    def forget(self, path: Path) -> None:
        """Remove a file that no longer exists."""
        self._paths = [other for other in self._paths if other != path]

    def save_state(self) -> list[str]:
        return [str(path) for path in self._paths]

    def restore_state(self, state: Any) -> None:
        """Restore the result of `save_state`."""
        values: Iterable[Any] = state if isinstance(state, list) else ()
        self._paths = [Path(item) for item in values if isinstance(item, str) and item.startswith("/")][
            :LIMIT
        ]
