"""Requests that the controller laid into the node's inbox."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.atomic import read_json
from torchdeck.contract.doctor.rank_profile import KIND as PROFILE
from torchdeck.contract.doctor.rank_profile import Wanted, is_profile_name, wanted_from
from torchdeck.contract.layout import FORMAT_VERSION
from torchdeck.contract.run_states import StopKind

CONTROLLER = "controller"
REPLACED = "replaced"
"""Origin of requests to agents whose session of the run is over, or was given up."""
REQUEST_LIMIT = 64 * 1024
"""Bytes of a request."""
KINDS = {"stop": StopKind.GRACEFUL, "stop_now": StopKind.NOW}
"""Kind of a request → kind of the stop it asks for."""
STACKS = "stacks"
"""Kind of a request for the stacks of all ranks."""
_NAMED = re.compile(r"(\d+-(stop|stop_now|stacks)-[0-9a-f]+)\.json")


def is_request_name(name: str) -> bool:
    """Whether a file of this name is a request even if it is empty."""
    return _NAMED.fullmatch(name) is not None


class InboxRequest(NamedTuple):
    """A request, checked."""

    id: str
    kind: str
    origin: str = ""
    """Origin of the request; `controller` if a node of the run is unavailable."""
    detail: str = ""
    session: int = 0
    """It applies to agents of sessions before this one; 0: to any agent."""
    wanted: Wanted | None = None
    """Ranks to profile."""


class Inbox:
    """Gives each request once, in order of their names, which begin with a time."""

    def __init__(self, folder: Path, taken: frozenset[str], session: int = 0) -> None:
        """Read `folder`, for an agent of this session, but for the ids that were `taken` already."""
        self._folder = folder
        self._session = session
        self._seen: set[str] = set()
        self._taken = set(taken)

    def read_new(self) -> list[InboxRequest]:
        """Requests not given yet; what is none is passed over.

        The folder's time would not show all that came: it ticks, and a file may come within one tick.
        """
        try:
            names = sorted(path.name for path in self._folder.iterdir() if path.name.endswith(".json"))
        except OSError:
            return []
        found = []
        for name in names:
            if name in self._seen or name.startswith("."):
                continue
            self._seen.add(name)
            request = self._read(name) or self._by_name(name)
            if request is not None and request.id not in self._taken:
                self._taken.add(request.id)
                if not request.session or self._session < request.session:
                    found.append(request)
        return found

    def _read(self, name: str) -> InboxRequest | None:
        try:
            return _checked(read_json(self._folder / name, limit=REQUEST_LIMIT))
        except OSError:
            self._seen.discard(name)  # it may be readable at the next look
            return None

    def _by_name(self, name: str) -> InboxRequest | None:
        """On a full disk a request is an empty file whose name says it all."""
        match = _NAMED.fullmatch(name)
        try:
            empty = (self._folder / name).stat().st_size == 0
        except OSError:
            return None
        return InboxRequest(match.group(1), match.group(2)) if match is not None and empty else None


def _checked(value: object) -> InboxRequest | None:
    if not isinstance(value, dict) or value.get("v") != FORMAT_VERSION:
        return None
    if str(value.get("kind")) not in (*KINDS, STACKS, PROFILE):
        return None
    wanted = wanted_from(value.get("wanted"))
    if value["kind"] == PROFILE and (wanted is None or not is_profile_name(str(value.get("id")))):
        return None
    id_, origin, detail = (value.get(name, "") for name in ("id", "origin", "detail"))
    if not isinstance(id_, str) or not isinstance(origin, str) or not isinstance(detail, str):
        return None
    session = value.get("life")
    session = session if isinstance(session, int) else 0
    return InboxRequest(id_, str(value["kind"]), origin, detail, session, wanted)
