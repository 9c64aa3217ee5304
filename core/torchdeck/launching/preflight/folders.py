"""Checks that the run can write to its home and its checkpoints, and that there is space."""

from __future__ import annotations

import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from torchdeck.agent.probe.system import nearest
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inodes import inodes_left, why_refused
from torchdeck.launching.preflight.disk_space import Room, check_free
from torchdeck.plan.check import Check, failed, ok, warning
from torchdeck.runs.home import HomeError, check_private

_NEEDS_CARE = re.compile(r'[\x00-\x1f\x7f":\\]')


def check_home(home: Path, node: str) -> Check:
    """Check that runs can be created below TORCHDECK_HOME, and that no other user can put files there."""
    if _NEEDS_CARE.search(str(home)) is not None:
        return failed(
            "home",
            node,
            f"the path {str(home)!r} holds a quote, colon, backslash or control character",
            "set TORCHDECK_HOME to a folder without",
        )
    if home.exists():
        try:
            check_private(home)
        except HomeError as error:
            return failed("home", node, error.finding, error.fix)
    return _writable("home", home, node, "set TORCHDECK_HOME to a folder you may write in")


def check_checkpoint_folder(directory: str | None, node: str) -> Iterator[Check]:
    """Check that checkpoints can be written to the configured folder; yield nothing if there is none."""
    if directory is None:
        return
    path = Path(directory)
    writable = _writable(
        "checkpoint folder", path, node, "make it a folder you may write in, or change checkpoint.directory"
    )
    yield writable
    if writable.status == "ok" and path.is_dir() and path.stat().st_mode & stat.S_IWOTH:
        yield warning(
            "checkpoint folder",
            node,
            f"anybody may write in {path}, and so change what a run resumes from",
            f"`chmod o-w {path}`",
        )


def check_room(config: RunConfig, home: Path, node: str, checkpoint: int) -> Iterator[Check]:
    """Check free space for runs and checkpoints, against limits.min_free_disk and the size of checkpoints.

    Args:
        config: the requested configuration.
        home: TORCHDECK_HOME.
        node: name of the node.
        checkpoint: bytes that one takes; 0 if unknown.
    """
    places = [home]
    if config.checkpoint.directory is not None:
        places.append(Path(config.checkpoint.directory))
    for place in places:
        if _writable("", place, node, "").status == "failed":
            continue  # already reported
        holds_checkpoints = place is places[-1]
        yield _room(config, place, checkpoint if holds_checkpoints else 0, node)


def _room(config: RunConfig, place: Path, estimate: int, node: str) -> Check:
    existing = nearest(place)
    try:
        free, inodes = shutil.disk_usage(existing).free, inodes_left(existing)
    except OSError as error:
        return failed(
            "disk", node, f"free space of {existing} cannot be read: {error.strerror}", "mend the disk"
        )
    return check_free(config, Room(str(existing), free, estimate, inodes), node)


def _writable(name: str, path: Path, node: str, fix: str) -> Check:
    existing = nearest(path)
    if not existing.is_dir():
        if existing == path:
            return failed(name, node, f"{path} is not a folder", fix)
        return failed(name, node, f"{path} cannot be made: {existing} is not a folder", fix)
    try:
        # an actual write: modes reveal nothing of the superuser, of quotas, or of a file system's own rules
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        what = f"{path} is not writable" if existing == path else f"{path} cannot be made in {existing}"
        return failed(name, node, f"{what} ({why_refused(error, existing)})", fix)
    return ok(name, node, f"{path} is writable")
