"""Readable summary of a run, at its end or on request."""

from __future__ import annotations

from torchdeck.contract.plan.launch_plan import WATCHED
from torchdeck.runs import reasons
from torchdeck.runs.audit.result import Audit, verdict_lines
from torchdeck.runs.run_state import RunState
from torchdeck.runs.view import RunView

THIS_MACHINE = "localhost"
"""A plan's name of the machine that it is made on; every other node has a disk of its own."""
TRACEBACK_LINES = 40
"""Lines above which the middle of a traceback is omitted; the whole is in the rank's stderr.log."""


def summary_lines(view: RunView, directory: str = "", audit: Audit | None = None) -> list[str]:
    """Return state, reason, the first failing rank with its traceback, and the next commands; one line each.

    Args:
        view: view of the run.
        directory: its directory, if it is to be shown.
        audit: whether it used the planned samples, if that is to be shown.
    """
    lines = [f"{view.state_word}  {view.name}  ({view.id})"]
    if view.why:
        lines.append(f"  {view.why}")
    lines += _failure_lines(view)
    if directory:
        lines.append(f"  directory: {directory}")
    if view.checkpoint is not None:
        step = "" if view.checkpoint.step is None else f"step {view.checkpoint.step}, "
        node = view.checkpoint.node
        where = "" if node in ("", THIS_MACHINE) or view.job else f" on node {node}"
        lines.append(f"  last checkpoint: {step}{_below(view.checkpoint.path, directory)}{where}")
    lines += [f"  note: {warning}" for warning in view.warnings if warning != view.why]
    lines += [f"  {line}" for line in (() if audit is None else verdict_lines(audit))]
    return lines + [f"  {line}" for line in next_lines(view)]


def _failure_lines(view: RunView) -> list[str]:
    found = view.first_failure
    if found is None or view.state not in (RunState.FAILED, RunState.LOST, RunState.RESTARTING):
        return []
    lines = []
    sentence = reasons.failure(found)
    who = reasons.failed(found)
    if sentence not in view.why and f"{who} failed" not in view.why:
        lines.append(f"  {sentence}")
    if (
        found.message
        and found.message != sentence
        and found.message not in view.why
        and found.message not in found.traceback
    ):
        lines.append(f"  {found.message}")
    if found.traceback:
        lines.append("")
        lines += [f"    {line}" for line in shortened(found.traceback)]
        lines.append("")
    return lines


def _below(path: str, directory: str) -> str:
    """Return `path` relative to `directory` if it is in it: the same long path twice is hard to read."""
    return path.removeprefix(f"{directory}/") if directory else path


def shortened(traceback: str) -> list[str]:
    """Return the lines of a traceback, without its middle if it is long."""
    lines = traceback.rstrip().splitlines()
    if len(lines) <= TRACEBACK_LINES:
        return lines
    half = TRACEBACK_LINES // 2
    return [*lines[:half], f"… {len(lines) - 2 * half} lines …", *lines[-half:]]


def next_lines(view: RunView) -> list[str]:
    """Return the next commands to run."""
    if view.state is RunState.SUCCEEDED:
        return [f"metrics: torchdeck runs metrics {view.id}", f"output:  torchdeck runs logs {view.id}"]
    if not view.is_over:
        is_watched = view.kind == WATCHED
        stop = (
            f"end:   torchdeck watch --end {view.id}"
            if is_watched
            else f"stop:  torchdeck runs stop {view.id}"
        )
        return [f"watch: torchdeck runs attach {view.id}", stop]
    lines = []
    if view.resumable:
        lines.append(f"resume: torchdeck runs resume {view.id}")
    if view.attempts:
        rank = view.first_failure.rank if view.first_failure is not None else None
        which = "" if rank is None else f" --rank {rank}"
        lines.append(f"output: torchdeck runs logs {view.id}{which}")
        if rank is not None:
            lines.append(f"errors: torchdeck runs logs {view.id}{which} --stderr")
    else:
        lines.append(f"details: torchdeck runs show {view.id}")
    return lines
