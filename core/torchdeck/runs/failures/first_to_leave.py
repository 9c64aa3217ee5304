"""The rank that left first, when another one failed because it lost a connection. Pure."""

from __future__ import annotations

from torchdeck.runs.failures.chapter import Advice, Recognised
from torchdeck.runs.run_state import AttemptView, Failure

TITLE = "A rank ended before the others"
_LATE = 0.9
"""Seconds by which the end of a rank may be journaled late; a failure is dated by the rank's own files."""
_TEXT = (
    "This rank ended by itself while others still needed it; what they report is a consequence. All ranks "
    "must take as many steps, or call the same collectives as often. Common causes: its share of the data "
    "has fewer batches, it returns early (a rank that only some code runs on), or it ends the program with "
    "sys.exit() or os._exit()."
)


def first_to_leave(attempt: AttemptView, failure: Failure) -> Recognised | None:
    """Return the rank that ended with exit code 0 before `failure`, which is a lost connection; None if no
    rank did.

    A rank that ended in another way before it would be the first failure itself.
    """
    if failure.time is None:
        return None
    left = [
        (exit_.time, exit_)
        for exit_ in attempt.exits
        if exit_.rank != failure.rank
        and exit_.code == 0
        and exit_.time is not None
        and exit_.time < failure.time + _LATE
    ]
    if not left:
        return None
    time, first = min(left, key=lambda each: each[0])
    node = f" on node {first.node}" if failure.node else ""
    before = f"{failure.time - time:.1f} s" if failure.time - time >= _LATE else "just"
    line = f"ended with exit code 0, {before} before rank {failure.rank} reported that it was gone"
    return Recognised(Advice(TITLE, (), _TEXT, consequence=False), f"rank {first.rank}{node}", line)
