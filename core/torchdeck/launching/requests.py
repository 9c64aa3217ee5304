"""Requests to a run: one file each in its control folder, written atomically by front ends."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.doctor.rank_profile import KIND as PROFILE
from torchdeck.contract.doctor.rank_profile import Wanted, wanted_from
from torchdeck.contract.journal import read_journal
from torchdeck.contract.layout import FORMAT_VERSION, RunLayout

STOP = "stop"
STOP_NOW = "stop_now"
STACKS = "stacks"
KINDS = (STOP, STOP_NOW, STACKS, PROFILE)
REQUEST_LIMIT = 64 * 1024
"""Bytes of a request."""
_NAMED = re.compile(r"\d+-(stop|stop_now|stacks)-[0-9a-f]+\.json")


@dataclass(frozen=True)
class Request:
    """A user's request to a run."""

    id: str
    kind: str
    """`stop`: finish the step, save, exit. `stop_now`: end the processes. `stacks`: examine the ranks.
    `profile`: profile some of them.
    """
    origin: str
    """Origin of the request: `terminal`, `api`, ..., or `controller` if a node is unavailable."""
    detail: str = ""
    """The controller's message about it."""
    session: int = 0
    """Session of the run: the request concerns agents of earlier sessions; 0: any recipient."""

    @property
    def file_name(self) -> str:
        return f"{self.id}.json"

    wanted: Wanted | None = None
    """Ranks to profile."""

    def to_json(self) -> dict[str, Any]:
        fields = asdict(self)
        fields["life"] = fields.pop("session")
        if self.wanted is None:
            del fields["wanted"]
        else:
            fields["wanted"] = self.wanted.to_json()
        return {"v": FORMAT_VERSION, **fields}


def write_request(
    layout: RunLayout, kind: str, origin: str, detail: str = "", wanted: Wanted | None = None
) -> Request:
    """Write a request to the run; the controller forwards it.

    Raises:
        OSError: the control folder cannot be written.
    """
    request = Request(f"{time.time_ns()}-{kind}-{os.urandom(4).hex()}", kind, origin, detail, wanted=wanted)
    page_request(layout.control, request)
    return request


def page_request(folder: Path, request: Request) -> None:
    """Write a request to `folder`: atomically, or, if the disk is full, as an empty file with the request in
    its name.

    Raises:
        OSError: not even that can be written.
    """
    path = folder / request.file_name
    try:
        write_json(path, request.to_json())
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or request.wanted is not None:
            raise  # a name cannot say which ranks
        path.touch(mode=0o600)


def read_requests(control: Path, known: frozenset[str] = frozenset()) -> list[Request]:
    """Return the requests in `control` that are not `known`, oldest first; other files are skipped."""
    try:
        names = sorted(entry.name for entry in control.iterdir() if _is_named(entry.name))
    except FileNotFoundError:
        return []
    found = (_read(control / name) for name in names if name[:-5] not in known)
    return [request for request in found if request is not None]


def is_stop_now_asked(layout: RunLayout) -> bool:
    """Return whether the run is to be stopped at once."""
    return any(each.kind == STOP_NOW for each in read_requests(layout.control))


def _read(path: Path) -> Request | None:
    try:
        named = _NAMED.fullmatch(path.name) if path.stat().st_size == 0 else None
        if named:
            return Request(path.stem, named.group(1), "")
        return _request(read_json(path, limit=REQUEST_LIMIT), path.name)
    except OSError:
        return None


def _is_named(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _request(value: Any, name: str) -> Request | None:
    if (
        not isinstance(value, Mapping)
        or value.get("v") != FORMAT_VERSION
        or str(value.get("kind")) not in KINDS
    ):
        return None
    origin, detail = value.get("origin", ""), value.get("detail", "")
    if not isinstance(origin, str) or not isinstance(detail, str):
        return None
    wanted = wanted_from(value.get("wanted"))
    if value["kind"] == PROFILE and wanted is None:
        return None
    return Request(name[:-5], str(value["kind"]), origin, detail, wanted=wanted)


def asked_arguments(layout: RunLayout) -> tuple[str, ...]:
    """Return the arguments given with the last `runs resume ID -- ARGS`, by the run's own journal."""
    given: tuple[str, ...] = ()
    for event in read_journal(layout.journal):
        arguments = event.fields.get("arguments")
        if event.name == "resumed" and isinstance(arguments, list) and arguments:
            given = tuple(map(str, arguments))
    return given
