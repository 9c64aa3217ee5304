"""Torchdeck's runs on this node: their processes, who looks after them, and orphans of dead ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.lock_file import is_held
from torchdeck.contract.processes import PROC, RUN_ID_VARIABLE, ProcessIdentity, read_stat

_DIRECTORY_VARIABLE = "TORCHDECK_RUN_DIR"


def running() -> list[dict[str, Any]]:
    """Return the runs that have processes here.

    Each: `run_id`, `directory`, `processes` (pids), `ranks` (global ranks), `user`, and `supervised`: an
    agent or a shim of it lives, without which its processes are orphans. Only root sees other users' runs.
    """
    found: dict[str, dict[str, Any]] = {}
    for pid, environ in _environments():
        run_id = environ[RUN_ID_VARIABLE]
        run = found.setdefault(
            run_id, {"run_id": run_id, "directory": "", "processes": [], "ranks": [], "user": _owner(pid)}
        )
        run["processes"].append(pid)
        run["directory"] = run["directory"] or environ.get(_DIRECTORY_VARIABLE, "")
        rank = environ.get("RANK", "")
        if rank.isdecimal() and int(rank) not in run["ranks"]:
            run["ranks"].append(int(rank))
    for run in found.values():
        run["ranks"].sort()
        run["supervised"] = is_supervised(Path(run["directory"])) if run["directory"] else False
    return sorted(found.values(), key=lambda run: str(run["run_id"]))


def is_supervised(directory: Path) -> bool:
    """Return whether an agent or a shim of the run in `directory` lives on this node."""
    layout = RunLayout(directory)
    return any(identity.is_alive() for identity in _supervisors(layout))


def is_supervised_anywhere(directory: Path) -> bool:
    """The same of all nodes that share the directory, as over NFS: an agent holds its lock for life."""
    with contextlib.suppress(OSError):
        return any(
            is_held(RunLayout(directory).node(node.name).lock)
            for node in RunLayout(directory).nodes.iterdir()
        )
    return False


def _supervisors(layout: RunLayout) -> Iterator[ProcessIdentity]:
    with contextlib.suppress(OSError):
        for node in layout.nodes.iterdir():
            identity = ProcessIdentity.from_json(read_json(layout.node(node.name).lock))
            if identity is not None:
                yield identity
    with contextlib.suppress(OSError):
        for number in reversed(layout.attempt_numbers()):
            for node in (layout.attempt(number).root / "nodes").iterdir():
                held = read_json(layout.attempt(number).node(node.name).holder)
                identity = ProcessIdentity.from_json(held.get("holder")) if isinstance(held, dict) else None
                if identity is not None:
                    yield identity


def _environments() -> Iterator[tuple[int, dict[str, str]]]:
    needle = f"{RUN_ID_VARIABLE}=".encode()
    for entry in PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            content = (entry / "environ").read_bytes()
        except OSError:
            continue  # gone, or reused
        if needle not in content:
            continue
        pairs = (item.partition(b"=") for item in content.split(b"\0"))
        environ = {
            name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, _, value in pairs
        }
        stat = read_stat(int(entry.name))
        if environ.get(RUN_ID_VARIABLE) and stat is not None and stat.state not in "ZX":
            yield int(entry.name), environ


def _owner(pid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid((PROC / str(pid)).stat().st_uid).pw_name
    except (OSError, KeyError):
        return ""
