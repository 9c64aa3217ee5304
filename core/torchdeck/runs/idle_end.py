"""A script that ended well and did nothing: no step, no metric, hardly any output."""

from __future__ import annotations

from pathlib import Path

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.script_state import read_script_state
from torchdeck.quantities import duration, size
from torchdeck.runs.state import RunState
from torchdeck.runs.view import RunView

LITTLE_OUTPUT = 200
"""Bytes that all ranks together printed at most."""


def idle_note(layout: RunLayout, view: RunView) -> str:
    """Return a sentence about a script that succeeded without any trace of work; empty for any other run."""
    if view.state is not RunState.SUCCEEDED or view.kind == "recipe" or view.checkpoint is not None:
        return ""
    if not view.attempts:
        return ""
    last = view.attempts[-1]
    printed = 0
    for rank in range(last.world_size or view.world_size or 0):
        files = layout.attempt(last.number).rank(rank)
        printed += _size(files.stdout) + _size(files.stderr)
        if printed > LITTLE_OUTPUT or files.progress.exists() or any(files.metrics.glob("*")):
            return ""
        state = read_script_state(files.script)
        if state is not None and state.step is not None:
            return ""
    output = f"{size(printed)} of output" if printed else "no output"
    seconds = "" if last.ended is None else f" after {duration(last.ended - last.started)}"
    return (
        f"All ranks ended with exit code 0{seconds}, with no step, no metric and {output}. "
        "If that is unexpected, check the arguments, and that the script calls its main function."
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
