"""Last decisions of the queue's server: written by it, and shown by front ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.layout import Home
from torchdeck.contract.lock_file import is_held
from torchdeck.queue.scheduling.scheduler import Wait

VERSION = 1


@dataclass(frozen=True)
class ServerStatus:
    """State of the server; times in seconds since the epoch."""

    is_running: bool
    waits: Mapping[str, Wait] = field(default_factory=dict)
    """Entry → why and until when it waits; empty if no server runs."""
    problems: tuple[str, ...] = ()
    """Problems of the server, as sentences."""


def read_status(home: Path) -> ServerStatus:
    """Return the state of the server of a home; damaged parts of its file are left out."""
    if not is_held(Home(home).queue_lock):
        return ServerStatus(is_running=False)
    try:
        value = read_json(Home(home).queue_status)
    except OSError:
        value = None
    if not isinstance(value, dict) or value.get("v") != VERSION:
        return ServerStatus(is_running=True)
    waits, problems = value.get("waits"), value.get("problems")
    return ServerStatus(
        is_running=True,
        waits={str(name): _wait(each) for name, each in waits.items()} if isinstance(waits, dict) else {},
        problems=tuple(str(each) for each in problems) if isinstance(problems, list) else (),
    )


def write_status(home: Path, waits: Mapping[str, Wait], problems: tuple[str, ...]) -> None:
    """Write the state of the server of a home. Raises OSError."""
    value = {
        "v": VERSION,
        "waits": {name: list(wait) for name, wait in waits.items()},
        "problems": list(problems),
    }
    write_json(Home(home).queue_status, value, durable=False)


def _wait(value: Any) -> Wait:
    why, estimate, certain = value if isinstance(value, list) and len(value) == 3 else ("", None, None)
    return Wait(str(why), _time(estimate), _time(certain))


def _time(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
