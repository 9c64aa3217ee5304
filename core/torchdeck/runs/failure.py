"""Readable report on why a run failed, gathered from its journals and logs. Blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from torchdeck.contract.layout import AttemptLayout, RunLayout
from torchdeck.runs import reasons
from torchdeck.runs.state import CheckpointSeen, Failure, RankExit, RunState
from torchdeck.runs.view import RunView

# Known causes in a failed run's logs, and their remedies: the troubleshooting chapter bundled with
# Torchdeck.
#
# The chapter is `troubleshooting.md` among the resources. Each section begins with a comment that holds its
# signs, one regular expression per line, and comes before sections that may be its consequences.

TAIL_BYTES = 128 * 1024
"""Bytes searched at the end of a log."""
RANKS = 16
"""Number of ranks whose logs are searched; the one that failed first is always among them."""
_LONGEST_LINE = 300
_SECTION = re.compile(
    r"^## (?P<title>.+)\n+<!--\n(?P<signs>(?s:.*?))-->\n+(?P<text>(?s:.*?))(?=^## |\Z)", re.MULTILINE
)
_SIGN = re.compile(r"^sign: (.+)$", re.MULTILINE)
_CONSEQUENCE = re.compile(r"^consequence:", re.MULTILINE)
Source = tuple[str, list[str]]
"""Source of the lines, and the lines."""


@dataclass(frozen=True)
class Advice:
    """One section of the chapter."""

    title: str
    signs: tuple[re.Pattern[str], ...]
    text: str
    """Its paragraphs, as in the chapter."""
    consequence: bool
    """Whether the cause may be in another rank, which is then searched for."""

    @property
    def page(self) -> str:
        """The section's page in the documentation, as `torchdeck docs` takes it."""
        if not self.signs:
            return "trouble/failed"
        return f"trouble/failed#{re.sub('[^a-z0-9]+', '-', self.title.lower()).strip('-')}"


@dataclass(frozen=True)
class Recognised:
    """Sign found in a log."""

    advice: Advice
    where: str
    """`rank 1`, or `torchrun`."""
    line: str
    """Line in which it was found."""

    def to_json(self) -> dict[str, str]:
        return {"title": self.advice.title, "where": self.where, "line": self.line, "text": self.advice.text}


def chapter() -> tuple[Advice, ...]:
    """Return all sections, in their order."""
    text = (files("torchdeck_resources") / "troubleshooting.md").read_text(encoding="utf-8")
    return tuple(
        Advice(
            found["title"].strip(),
            tuple(re.compile(sign) for sign in _SIGN.findall(found["signs"])),
            found["text"].strip(),
            _CONSEQUENCE.search(found["signs"]) is not None,
        )
        for found in _SECTION.finditer(text)
    )


def diagnose(layout: RunLayout, view: RunView) -> Recognised | None:
    """Return the likeliest cause of a run's failure, from its logs; None if it did not fail, or no sign
    matches.

    Args:
        layout: layout of the run.
        view: view of the run.
    """
    if not view.attempts or view.exit_code not in (1, 3):
        return None
    attempt = layout.attempt(view.attempts[-1].number)
    words = _words(attempt, view)
    own = None if words is None else recognise([words])
    if own is not None and not own.advice.consequence:
        return own
    if words is not None and own is None:
        # the cause is this rank's own, and what the others reported is a consequence
        return _of_its_own(view)
    return recognise(_cause_others(attempt, view)) or own


def _of_its_own(view: RunView) -> Recognised | None:
    """Return the advice on an exception in the user's own code."""
    failure = view.first_failure
    found = None if failure is None else own_exception(failure)
    if failure is None or found is None:
        return None
    text = how_to_go_on(found, view.code_folder, _point(view.checkpoint))
    line = (failure.message.splitlines() or [found.kind])[0].strip()[:_LONGEST_LINE]
    advice = Advice(f"An exception in {found.name}", (), text, consequence=False)
    return Recognised(advice, f"rank {failure.rank}", line)


def recognise(sources: Iterable[Source]) -> Recognised | None:
    """Return the first section of the chapter that has a sign in one of `sources`."""
    texts = list(sources)
    for advice in chapter():
        for who, lines in texts:
            for line in lines:
                if any(sign.search(line) for sign in advice.signs):
                    return Recognised(advice, who, line.strip()[:_LONGEST_LINE])
    return None


def _words(attempt: AttemptLayout, view: RunView) -> Source | None:
    """Return the lines of the rank that failed first; None if it was killed, or if no rank is to blame."""
    failure = view.first_failure
    if failure is None or failure.rank is None or failure.signal:
        return None
    lines = [*failure.message.splitlines(), *failure.traceback.splitlines()]
    return f"rank {failure.rank}", lines or _tail(attempt.rank(failure.rank).stderr)


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


# Advice on an exception in the user's own code, which no chapter covers: where it is, how to continue.

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


def _point(seen: CheckpointSeen | None) -> str:
    if seen is None:
        return ""
    return f"checkpoint {PurePath(seen.path).name}" if seen.step is None else f"step {seen.step:,}"


def how_to_go_on(found: OwnException, code_folder: str, point: str) -> str:
    """Return advice on how to continue.

    Args:
        found: the exception.
        code_folder: folder of which the run executes a copy; a resume uses that copy, if the file is in it.
        point: the newest checkpoint, such as `step 1,200`; empty without one.
    """
    start = f"{found.kind} at line {found.line} of {found.name}: fix it there. "
    if not point:
        return start + "Then clone the run. No checkpoint was saved."
    if code_folder and found.file.startswith(f"{code_folder}/"):
        return start + (
            f"Then clone the run to start again with the fix. Resume continues from {point}, but with "
            "the run's own copy of the code, which does not change."
        )
    return start + f"Then clone the run, or resume it from {point}."


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


def read_failure(layout: RunLayout, view: RunView) -> FailureReport | None:
    """Return the report; None if the run has not failed.

    Args:
        layout: layout of the run.
        view: view of the run.
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
        advice=diagnose(layout, view),
    )


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
