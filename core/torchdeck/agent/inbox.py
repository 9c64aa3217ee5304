"""Requests that the controller laid into the node's inbox."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from torchdeck.rundir.atomic import read_json
from torchdeck.rundir.layout import FORMAT_VERSION

KINDS = {"stop": "graceful", "stop_now": "now"}
"""Kind of a request → kind of the stop it asks for."""


class InboxRequest(NamedTuple):
    """A request, checked."""

    id: str
    kind: str


class Inbox:
    """Gives each request once, in order of their names, which begin with a time."""

    def __init__(self, folder: Path, taken: frozenset[str]) -> None:
        self._folder = folder
        self._seen: set[str] = set()
        self._taken = set(taken)
        self._changed = -1

    def read_new(self) -> list[InboxRequest]:
        """Requests not given yet; what is none is passed over. Costs one stat while nothing comes."""
        try:
            changed = self._folder.stat().st_mtime_ns
        except OSError:
            return []
        if changed == self._changed:
            return []
        names = sorted(path.name for path in self._folder.glob("[!.]*.json"))
        self._changed = changed
        found = []
        for name in names:
            if name in self._seen:
                continue
            self._seen.add(name)
            request = _checked(read_json(self._folder / name))
            if request is not None and request.id not in self._taken:
                self._taken.add(request.id)
                found.append(request)
        return found


def _checked(value: object) -> InboxRequest | None:
    if not isinstance(value, dict) or value.get("v") != FORMAT_VERSION or value.get("kind") not in KINDS:
        return None
    return InboxRequest(str(value.get("id", "")), str(value["kind"]))
