"""Readable report on why a run failed, gathered from its journals and logs. Blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import AttemptLayout, RunLayout
from torchdeck.runs import reasons
from torchdeck.runs.failures.chapter import LONGEST_LINE, Advice, Program, Recognised, Source, recognise
from torchdeck.runs.failures.code_place import CodePlace
from torchdeck.runs.failures.first_to_leave import first_to_leave
from torchdeck.runs.failures.own_code import Front, how_to_go_on, own_exception, point
from torchdeck.runs.run_state import RankExit, RunState
from torchdeck.runs.view import RunView

TAIL_BYTES = 128 * 1024
"""Bytes searched at the end of a log."""
RANKS = 16
"""Number of ranks whose logs are searched; the one that failed first is always among them."""
_LAST_LINES = 40
"""Lines at the end of a log that are the last words of a rank without a traceback."""
_FATAL = "Fatal Python error: "
"""Beginning of what faulthandler writes about a crash; stacks of all threads follow."""
GPU_MEMORY = "Out of memory on a GPU"
"""Section of the chapter that the plan's cheaper settings belong to."""


def diagnose(layout: RunLayout, view: RunView, front: Front = Front.TERMINAL) -> Recognised | None:
    """Return the likeliest cause of a run's failure, from its logs; None if it did not fail, or no sign
    matches.

    Args:
        layout: layout of the run.
        view: view of the run.
        front: where the advice is read.
    """
    if not view.attempts or view.exit_code not in (1, 3):
        return None
    found = _likeliest(layout.attempt(view.attempts[-1].number), view, front)
    if found is None:
        return None
    advice = found.advice.for_program(Program.RECIPE if view.kind == "recipe" else Program.SCRIPT)
    changes = _cheaper(layout) if advice.title == GPU_MEMORY else ()
    if changes:
        nearest, *others = changes
        also = f" Or {'; or '.join(others)}." if others else ""
        text = (
            f"By the memory preview, the nearest setting that needs less is {nearest}.{also}\n\n{advice.text}"
        )
        advice = dataclasses.replace(advice, text=text)
    return dataclasses.replace(found, advice=advice)


def _likeliest(attempt: AttemptLayout, view: RunView, front: Front) -> Recognised | None:
    words, failure = _words(attempt, view), view.first_failure
    own = None if words is None else recognise([words])
    if own is not None and not own.advice.consequence:
        return own
    if words is not None and own is None and failure is not None and not failure.signal:
        # the cause is this rank's own, and what the others reported is a consequence
        return _of_its_own(view, front)
    left = None if own is None or failure is None else first_to_leave(view.attempts[-1], failure)
    return left or recognise(_cause_others(attempt, view)) or own


def _cheaper(layout: RunLayout) -> tuple[str, ...]:
    """Return the settings that need less memory, as the run's plan has them."""
    plan = read_json(layout.plan)
    prediction = plan.get("prediction") if isinstance(plan, dict) else None
    changes = prediction.get("cheaper") if isinstance(prediction, dict) else None
    return tuple(str(change) for change in changes) if isinstance(changes, list) else ()


def _of_its_own(view: RunView, front: Front) -> Recognised | None:
    """Return the advice on an exception in the user's own code."""
    failure = view.first_failure
    found = None if failure is None else own_exception(failure)
    if failure is None or found is None:
        return None
    text = how_to_go_on(found, view.code_folder, point(view.checkpoint), front, view.id)
    line = (failure.message.splitlines() or [found.kind])[0].strip()[:LONGEST_LINE]
    advice = Advice(f"An exception in {found.name}", (), text, consequence=False)
    return Recognised(advice, f"rank {failure.rank}", line)


def _words(attempt: AttemptLayout, view: RunView) -> Source | None:
    """Return the lines of the rank that failed first, if one did.

    A signal's cause is in the agent's words. Only an abort is explained by the last lines of its log, as is
    the end of a program that is not Python.
    """
    failure = view.first_failure
    if failure is None or failure.rank is None:
        return None
    lines = [*failure.message.splitlines(), *failure.traceback.splitlines()]
    if not failure.traceback and failure.signal in (None, "SIGABRT"):
        lines += _last_words(_tail(attempt.rank(failure.rank).stderr))
    return f"rank {failure.rank}", lines


def _last_words(lines: list[str]) -> list[str]:
    """Return the last lines of a log, and those before faulthandler's stacks of a crash, if there are any."""
    aborted = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].startswith(_FATAL)), 0)
    return [*lines[max(0, aborted - _LAST_LINES) : aborted], *lines[-_LAST_LINES:]]


def _cause_others(attempt: AttemptLayout, view: RunView) -> Iterator[Source]:
    """Yield the lines of all: the rank that failed first, the other ranks, then torchrun and the run
    itself.
    """
    failure = view.first_failure
    first = 0 if failure is None or failure.rank is None else failure.rank
    for rank in sorted({first, *range(min(view.world_size or 0, RANKS))}, key=lambda rank: rank != first):
        yield f"rank {rank}", _tail(attempt.rank(rank).stderr)
    for node in sorted(_nodes(attempt)):
        yield "torchrun", _tail(attempt.node(node.name).torchrun_log)
    yield "the run", [*view.why.splitlines(), *(failure.message.splitlines() if failure is not None else ())]


def _nodes(attempt: AttemptLayout) -> list[Path]:
    try:
        return [path for path in (attempt.root / "nodes").iterdir() if path.is_dir()]
    except OSError:
        return []


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []


OTHERS = 8
"""Number of other ranks whose exit is reported."""
_LINE = 300
_TAIL = 8 * 1024


@dataclass(frozen=True)
class FailureReport:
    """Report on a failure."""

    headline: str
    """The rank that failed first and how, or why the run is lost."""
    rank: int | None
    message: str
    traceback: str
    others: tuple[str, ...]
    """How other ranks ended, and the last line of each on standard error."""
    advice: Recognised | None
    place: CodePlace | None = None
    """Last line of the user's own code in the traceback."""


def read_failure(layout: RunLayout, view: RunView, front: Front = Front.WINDOW) -> FailureReport | None:
    """Return the report; None if the run has not failed.

    Args:
        layout: layout of the run.
        view: view of the run.
        front: where it is read.
    """
    if view.state not in (RunState.FAILED, RunState.LOST):
        return None
    failure = view.first_failure
    headline = reasons.failure(failure) if failure is not None else view.why or "the run failed"
    if view.state is RunState.LOST or view.agent_error:
        headline = view.why
    return FailureReport(
        headline=headline,
        rank=failure.rank if failure is not None else None,
        message=failure.message if failure is not None else "",
        traceback=failure.traceback.rstrip() if failure is not None else "",
        others=_others(layout, view),
        advice=diagnose(layout, view, front),
        place=failed_place(view),
    )


def failed_place(view: RunView) -> CodePlace | None:
    """Return the line of the user's own code at which a run failed; None if its failure names none."""
    found = own_exception(view.first_failure) if view.first_failure is not None else None
    return None if found is None else CodePlace(found.file, found.line)


def _others(layout: RunLayout, view: RunView) -> tuple[str, ...]:
    if not view.attempts:
        return ()
    attempt = view.attempts[-1]
    first = view.first_failure.rank if view.first_failure is not None else None
    exits = sorted((exit_ for exit_ in attempt.exits if exit_.rank != first), key=lambda exit_: exit_.rank)
    lines = []
    for exit_ in exits[:OTHERS]:
        last = _last_line(layout, attempt.number, exit_.rank)
        lines.append(f"rank {exit_.rank} {_how(exit_)}{f': {last}' if last else ''}")
    if len(exits) > OTHERS:
        lines.append(f"and {len(exits) - OTHERS:,} more ranks")
    return tuple(lines)


def _how(exit_: RankExit) -> str:
    if exit_.signal:
        return f"was ended by {exit_.signal}"
    return f"exited with code {exit_.code}" if exit_.code else "finished"


def _last_line(layout: RunLayout, attempt: int, rank: int) -> str:
    """Return the last line of a rank on standard error."""
    try:
        with layout.attempt(attempt).rank(rank).stderr.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[:_LINE] for line in reversed(lines) if line.strip()), "")
