"""State of the preview and its messages, as immutable values. Without Qt's widgets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, Protocol

from torchdeck.config.loader import LoadedConfig
from torchdeck.config.problems import Problem
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.refusal import Refusal
from torchdeck.plan.preview import Preview
from torchdeck.trust.trusted_entry import TRUST_PAGE, Held
from torchdeck_app.launch.preview.rank_grid_model import RankGridModel
from torchdeck_app.theme.palette import ColourName


class Checked(Protocol):
    """Interface of a `launch.document.run_document.CheckedDocument` as used here."""

    @property
    def version(self) -> int: ...
    @property
    def loaded(self) -> LoadedConfig | None: ...
    @property
    def problems(self) -> tuple[Problem, ...]: ...


@dataclass(frozen=True)
class PreviewState:
    """Current state of the preview."""

    preview: Preview | None = None
    """None if nothing could be previewed yet."""
    plan: LaunchPlan | None = None
    """Plan of the preview, which a launch starts unless `stale`."""
    loaded: LoadedConfig | None = None
    """Config from which the plan was made."""
    problems: tuple[Problem, ...] = ()
    """Problems of the newest document, previewed or not, or why its plan does not fit the machines."""
    tracing: str = ""
    """Current step of the model's tracing; empty if none is running."""
    held: Held | None = None
    """Code that would have to run to show more, and is not trusted yet."""
    error: Refusal | None = None
    """Why no preview could be created although the document has no problems."""
    stale: bool = False
    """Whether the preview is of an earlier document."""
    version: int = -1
    """Version of the processed document."""
    board: RankGridModel | None = None
    """Ranks of the preview on the machines that could be used."""
    waiting: str = ""
    """Pending step of the next preview, if that takes long."""
    cancelled: bool = False
    """Whether the user has cancelled the tracing; `refresh` restarts it."""


# Messages of the preview: that it waits, is outdated, or needs permission. Without Qt.

_ABOUT = "Where every rank runs, what it reads and how much memory it needs."
_SHOWN = 3
"""Maximum problems shown in place of the preview; the list of problems has all."""


class Action(Enum):
    """Action of a message's button."""

    TRUST = auto()
    CANCEL = auto()
    """Cancel the trace."""
    REFRESH = auto()


class Message(NamedTuple):
    """Message of one line, and its action."""

    text: str
    colour: ColourName = "secondary"
    action: Action | None = None
    """Action of its button; None: no button."""
    button: str = ""
    tip: str = ""
    page: str = ""
    """Page of the documentation that helps."""


NOTHING = Message("")


def message_of(state: PreviewState) -> Message:
    """Return the most important message about `state`."""
    if state.error:
        text = f"✕ No preview: {state.error}"
        tip = "Read machine, code and data again"
        return Message(text, "bad", Action.REFRESH, "Try &again", tip, state.error.page)
    if state.stale and state.problems:
        first, *others = state.problems
        more = f", and {len(others):,} more" if others else ""
        tip = "\n".join(map(_wrong_and_right, state.problems[:_SHOWN]))
        return Message(f"◷ Showing the last valid preview. {_sentence(first)}{more}", "warn", tip=tip)
    if state.held is not None:
        return _of_held(state.held)
    if state.tracing:
        tip = "Continue without a memory estimate"
        return Message(f"◷ {state.tracing} …", "secondary", Action.CANCEL, "Ca&ncel", tip)
    if state.waiting:
        return Message(f"◷ {state.waiting} …")
    if state.cancelled:
        return Message(
            "Memory unknown: the estimate was cancelled", "secondary", Action.REFRESH, "&Trace it", ""
        )
    return NOTHING


def _of_held(held: Held) -> Message:
    if not held.can_be_trusted:
        tip = "Try again when that is done"
        return Message(f"✕ {held}", "bad", Action.REFRESH, "Try &again", tip, TRUST_PAGE)
    return Message(
        f"? Code in {held.folder} is not trusted yet, and was not run",
        "warn",
        Action.TRUST,
        "&Trust …",
        f"{held.folder}: from now on its code runs when a model is traced and in every rank",
        TRUST_PAGE,
    )


def reason_of(state: PreviewState) -> str:
    """Return the text in place of a missing preview: the reason, or what will be shown."""
    if state.error:
        return "The preview failed; see the message above."
    if not state.problems:
        return _ABOUT
    count = len(state.problems)
    problems = "there is a problem" if count == 1 else f"there are {count:,} problems"
    return f"No preview while {problems}. See the list of problems on the left."


def _sentence(problem: Problem) -> str:
    """Return the problem as a separate sentence: a key is spelled as it is, anything else is capitalized."""
    text = _wrong(problem)
    return text if problem.path else text[:1].upper() + text[1:]


def _wrong(problem: Problem) -> str:
    return f"{problem.path}: {problem.wrong}" if problem.path else problem.wrong


def _wrong_and_right(problem: Problem) -> str:
    return f"{_wrong(problem)}. Expected: {problem.right}"


def notes_of(state: PreviewState) -> tuple[str, ...]:
    """Return warnings and notes of the plan, warnings first; each once."""
    if state.preview is None:
        return ()
    program = state.preview.program
    own = () if program is None else map(str, program.contradictions)
    warnings = (f"⚠ {warning}" for warning in (*own, *state.preview.plan.warnings))
    return tuple(dict.fromkeys((*warnings, *state.preview.notes)))
