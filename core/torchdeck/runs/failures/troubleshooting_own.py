"""What to do of an exception in the user's own code, which no chapter knows: where it is, how to go on."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import NamedTuple

from torchdeck.runs.state import Failure

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_RAISED = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?::|$)")
_LIBRARY = re.compile(
    r"^<|/(?:site|dist)-packages/|/lib(?:64)?/python3[^/]*/"
    r"|/torchdeck/(?:agent|contract|data|distributed|environment|integrations|recipes|rundir|telemetry|tracing)/"
)
"""Files that are nobody's own: installed packages, Python's library, Torchdeck as it is sent to nodes."""


class OwnException(NamedTuple):
    """Where a user's code raised, or called what did."""

    kind: str
    """`KeyError`."""
    file: str
    """Its path on the node."""
    line: int

    @property
    def name(self) -> str:
        return PurePosixPath(self.file).name


def own_exception(failure: Failure) -> OwnException | None:
    """The last place in the user's own code; None where the traceback leads through none."""
    frames = [found for found in _FRAME.finditer(failure.traceback) if not _LIBRARY.search(found["file"])]
    last = next((line for line in reversed(failure.traceback.splitlines()) if _RAISED.match(line)), "")
    raised = _RAISED.match(last or failure.message)
    if not frames or raised is None:
        return None
    kind = raised["name"].rpartition(".")[2]
    return OwnException(kind, frames[-1]["file"], int(frames[-1]["line"]))


def how_to_go_on(found: OwnException, run_id: str, step: int | None) -> str:
    """What to do.

    Args:
        found: what was raised.
        run_id: the run's id; a resume takes the run's own copy of the code, where the file lies in that.
        step: of the newest checkpoint; None without one.
    """
    start = f"{found.kind} at line {found.line} of {found.name}: mend it there. "
    if step is None:
        return start + "Then Clone starts the run anew; there is no checkpoint to go on from."
    if f"/runs/{run_id}/code/" in found.file:
        return start + (
            f"Then Clone starts the run anew with it. Resume goes on from step {step:,}, but with the run's "
            "own copy of the code, which stays as it was."
        )
    return start + f"Then Clone starts the run anew, or Resume goes on from step {step:,}."
