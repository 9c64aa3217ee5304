"""Requests to a run: files in its control folder, one each, written whole by front ends."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torchdeck.rundir.atomic import read_json, write_json
from torchdeck.rundir.layout import FORMAT_VERSION, RunLayout

STOP = "stop"
STOP_NOW = "stop_now"
KINDS = (STOP, STOP_NOW)


@dataclass(frozen=True)
class Request:
    """Something a person wants of a run."""

    id: str
    kind: str
    """`stop`: finish the step, save, exit. `stop_now`: end the processes."""
    origin: str
    """Who asked: `terminal`, `api`, ..."""

    @property
    def file_name(self) -> str:
        return f"{self.id}.json"

    def to_json(self) -> dict[str, Any]:
        return {"v": FORMAT_VERSION, **asdict(self)}


def write_request(layout: RunLayout, kind: str, origin: str) -> Request:
    """Ask the run for something; the controller forwards it.

    Raises:
        OSError: the control folder cannot be written.
    """
    request = Request(f"{time.time_ns()}-{kind}-{os.urandom(4).hex()}", kind, origin)
    write_json(layout.control / request.file_name, request.to_json())
    return request


def read_requests(control: Path, known: frozenset[str] = frozenset()) -> list[Request]:
    """The requests in `control` that are not `known`, oldest first; what is no request is passed over."""
    try:
        names = sorted(entry.name for entry in control.iterdir() if _is_named(entry.name))
    except FileNotFoundError:
        return []
    found = (_request(read_json(control / name), name) for name in names if name[:-5] not in known)
    return [request for request in found if request is not None]


def _is_named(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _request(value: Any, name: str) -> Request | None:
    if not isinstance(value, Mapping) or value.get("v") != FORMAT_VERSION or value.get("kind") not in KINDS:
        return None
    return Request(name[:-5], str(value["kind"]), str(value.get("origin", "")))
