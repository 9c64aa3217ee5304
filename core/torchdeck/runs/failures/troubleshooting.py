"""What a failed run's logs show that is known, and what to do: the chapter that comes with Torchdeck.

The chapter is `troubleshooting.md` among the resources; each section begins with a comment that holds its
signs, one regular expression a line, and stands before those that may be its consequences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from torchdeck.contract.layout import AttemptLayout, RunLayout
from torchdeck.runs.state import Failure
from torchdeck.runs.view import RunView

TAIL_BYTES = 128 * 1024
"""How much of a log's end is searched."""
RANKS = 16
"""Ranks whose logs are searched; the one that failed first is always among them."""
_LONGEST_LINE = 300
_SECTION = re.compile(
    r"^## (?P<title>.+)\n+<!--\n(?P<signs>(?s:.*?))-->\n+(?P<text>(?s:.*?))(?=^## |\Z)", re.MULTILINE
)
_SIGN = re.compile(r"^sign: (.+)$", re.MULTILINE)
_CONSEQUENCE = re.compile(r"^consequence:", re.MULTILINE)
Source = tuple[str, list[str]]
"""Who said it, and the lines."""


@dataclass(frozen=True)
class Advice:
    """One section of the chapter."""

    title: str
    signs: tuple[re.Pattern[str], ...]
    text: str
    """Its paragraphs, as they stand in the chapter."""
    consequence: bool
    """It may have its cause in another rank, which is then to be looked for."""

    @property
    def page(self) -> str:
        """The section's place in the documentation, as `torchdeck docs` takes it."""
        if not self.signs:
            return "trouble/failed"
        return f"trouble/failed#{re.sub('[^a-z0-9]+', '-', self.title.lower()).strip('-')}"


@dataclass(frozen=True)
class Recognised:
    """A sign that was found."""

    advice: Advice
    where: str
    """`rank 1`, or `torchrun`."""
    line: str
    """What it was found in."""

    def to_json(self) -> dict[str, str]:
        return {"title": self.advice.title, "where": self.where, "line": self.line, "text": self.advice.text}


def chapter() -> tuple[Advice, ...]:
    """All sections, in their order."""
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
    """The likeliest cause of a run's failure, by its logs; None where it did not fail, or nothing is known.

    Args:
        layout: of the run.
        view: of it.
    """
    if not view.attempts or view.exit_code not in (1, 3):
        return None
    attempt = layout.attempt(view.attempts[-1].number)
    words = _words(attempt, view)
    own = None if words is None else recognise([words])
    if own is not None and not own.advice.consequence:
        return own
    if words is not None and own is None:
        # it failed of something of its own, and what others said follows from that
        return _of_its_own(view)
    return recognise(_others(attempt, view)) or own


def _of_its_own(view: RunView) -> Recognised | None:
    """What is said of an exception in the user's own code."""
    failure = view.first_failure
    found = None if failure is None else own_exception(failure)
    if failure is None or found is None:
        return None
    text = how_to_go_on(found, view.id, None if view.checkpoint is None else view.checkpoint.step)
    line = (failure.message.splitlines() or [found.kind])[0].strip()[:_LONGEST_LINE]
    advice = Advice(f"An exception in {found.name}", (), text, consequence=False)
    return Recognised(advice, f"rank {failure.rank}", line)


def recognise(sources: Iterable[Source]) -> Recognised | None:
    """The first section of the chapter that has a sign in one of `sources`."""
    texts = list(sources)
    for advice in chapter():
        for who, lines in texts:
            for line in lines:
                if any(sign.search(line) for sign in advice.signs):
                    return Recognised(advice, who, line.strip()[:_LONGEST_LINE])
    return None


def _words(attempt: AttemptLayout, view: RunView) -> Source | None:
    """What the rank that failed first said itself; None where it was killed, or none is to blame."""
    failure = view.first_failure
    if failure is None or failure.rank is None or failure.signal:
        return None
    lines = [*failure.message.splitlines(), *failure.traceback.splitlines()]
    return f"rank {failure.rank}", lines or _tail(attempt.rank(failure.rank).stderr)


def _others(attempt: AttemptLayout, view: RunView) -> Iterator[Source]:
    """What everybody said, the rank that failed first before the others, then torchrun and the run itself."""
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


# What to do of an exception in the user's own code, which no chapter knows: where it is, how to go on.

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
    start = f"{found.kind} at line {found.line} of {found.name}: fix it there. "
    if step is None:
        return start + "Then clone the run. No checkpoint was saved."
    if f"/runs/{run_id}/code/" in found.file:
        return start + (
            f"Then clone the run to start again with the fix. Resume continues from step {step:,}, but with "
            "the run's own copy of the code, which does not change."
        )
    return start + f"Then clone the run, or resume it from step {step:,}."
