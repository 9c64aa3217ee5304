"""Those whom torchrun's store refused, as torchrun counts them in a file, for the journal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import read_json

_LONGEST = 500
"""Characters of a reason."""
_AGAIN = 10
"""Reported when there are so many times as many as the last time."""


class StoreStrangers:
    """Refused connections of one attempt."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = 0
        self._reported = 0

    def news(self) -> Mapping[str, Any] | None:
        """Return the fields of an event if it is due: for the first, and each time there are many more."""
        try:
            changed = self._path.stat().st_mtime_ns
        except OSError:
            return None
        if changed == self._seen:
            return None
        self._seen = changed
        value = read_json(self._path)
        count = value.get("count") if isinstance(value, dict) else None
        if type(count) is not int or count < max(1, self._reported * _AGAIN):
            return None
        self._reported = count
        texts = {name: str(value.get(name, ""))[:_LONGEST] for name in ("address", "why")}
        return {"count": count, **texts}
