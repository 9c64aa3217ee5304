"""Advice on an exception in the user's own code, which no chapter covers: where it is, how to continue."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import PurePath, PurePosixPath
from typing import NamedTuple

from torchdeck.runs.run_state import CheckpointSeen, Failure

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_RAISED = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?::|$)")
_LIBRARY = re.compile(
    r"^<|/(?:site|dist)-packages/|/lib(?:64)?/python3[^/]*/"
    r"|/torchdeck/(?:agent|contract|data|distributed|environment|integrations|recipes|rundir|telemetry|tracing|trainers)/"
)
"""Files that are not the user's: installed packages, Python's library, Torchdeck's runtime bundle on nodes.
"""


class OwnException(NamedTuple):
    """Location at which a user's code raised, or called the code that did."""

    kind: str
    """`KeyError`."""
    file: str
    """Path on the node."""
    line: int

    @property
    def name(self) -> str:
        return PurePosixPath(self.file).name


def own_exception(failure: Failure) -> OwnException | None:
    """Return the last location in the user's own code; None if the traceback has none."""
    frames = [found for found in _FRAME.finditer(failure.traceback) if not _LIBRARY.search(found["file"])]
    last = next((line for line in reversed(failure.traceback.splitlines()) if _RAISED.match(line)), "")
    raised = _RAISED.match(last or failure.message)
    if not frames or raised is None:
        return None
    kind = raised["name"].rpartition(".")[2]
    return OwnException(kind, frames[-1]["file"], int(frames[-1]["line"]))


class Front(Enum):
    """Where advice is read: actions have other names there."""

    WINDOW = 1
    TERMINAL = 2

    def clone(self, run_id: str) -> str:
        """Return how a run is cloned, as an order."""
        return "clone the run" if self is Front.WINDOW else f"`torchdeck runs clone {run_id}`"

    def resume(self, run_id: str) -> str:
        """Return how a run is resumed, as a subject."""
        return "Resume" if self is Front.WINDOW else f"`torchdeck runs resume {run_id}`"


def point(seen: CheckpointSeen | None) -> str:
    """Return the newest checkpoint, such as `step 1,200`; empty without one."""
    if seen is None:
        return ""
    return f"checkpoint {PurePath(seen.path).name}" if seen.step is None else f"step {seen.step:,}"


def how_to_go_on(
    found: OwnException, code_folder: str, point: str, front: Front = Front.WINDOW, run_id: str = ""
) -> str:
    """Return advice on how to continue.

    Args:
        found: the exception.
        code_folder: folder of which the run executes a copy; a resume uses that copy, if the file is in it.
        point: the newest checkpoint, such as `step 1,200`; empty without one.
        front: where it is read.
        run_id: id of the run, for commands.
    """
    start = f"{found.kind} at line {found.line} of {found.name}: fix it there. "
    clone, resume = front.clone(run_id), front.resume(run_id)
    if not point:
        return start + f"Then {clone}. No checkpoint was saved."
    if code_folder and found.file.startswith(f"{code_folder}/"):
        return start + (
            f"Then {clone} to start again with the fix. {resume} continues from {point}, but with "
            "the run's own copy of the code, which does not change."
        )
    if front is Front.WINDOW:
        return start + f"Then {clone}, or resume it from {point}."
    return start + f"Then {clone}, or {resume}, which continues from {point}."
