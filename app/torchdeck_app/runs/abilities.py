"""Actions that a run allows in its current state, and why others are not possible."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from torchdeck.contract.plan.launch_plan import WATCHED
from torchdeck.quantities import ago
from torchdeck.runs.foreign import why_no_start
from torchdeck.runs.run_state import RunState
from torchdeck_app.widgets.state_badge import LOOKS

if TYPE_CHECKING:
    from torchdeck.runs.view import RunView


class RunCommand(StrEnum):
    """Requests to runs that the window offers."""

    STOP = "stop"
    STOP_NOW = "stop_now"
    RESUME = "resume"
    RESUME_WITH = "resume_with"
    ATTACH = "attach"
    ATTACH_ELSEWHERE = "attach_elsewhere"
    WATCH = "watch"
    END_WATCH = "end_watch"
    STACKS = "stacks"
    PROFILE = "profile"
    PROFILE_RANKS = "profile_ranks"
    CLONE = "clone"
    TAGS = "tags"
    PIN = "pin"
    ARCHIVE = "archive"
    BASELINE = "baseline"
    DELETE = "delete"
    TRASH = "trash"
    FREE_SPACE = "free_space"
    REPORT = "report"
    FOLDER = "folder"
    TERMINAL = "terminal"
    FILES = "files"
    COPY_ID = "copy_id"
    FILTER = "filter"

    @property
    def words(self) -> str:
        """On a button, in lower case."""
        return self.value.replace("_", " ")


@dataclass(frozen=True)
class Abilities:
    """Reason per action why it is not possible; empty if it is."""

    stop: str = ""
    stop_now: str = ""
    resume: str = ""
    resume_with: str = "only scripts are resumed with arguments"
    attach: str = ""
    clone: str = ""
    delete: str = ""
    stacks: str = ""
    profile: str = ""
    end_watch: str = "Torchdeck started it: Stop ends it"

    def why_not(self, command: RunCommand) -> str:
        """Why it is not possible; empty if it is."""
        reasons = {
            RunCommand.STOP: self.stop,
            RunCommand.STOP_NOW: self.stop_now,
            RunCommand.RESUME: self.resume,
            RunCommand.RESUME_WITH: self.resume_with,
            RunCommand.ATTACH: self.attach,
            RunCommand.CLONE: self.clone,
            RunCommand.DELETE: self.delete,
            RunCommand.END_WATCH: self.end_watch,
            RunCommand.STACKS: self.stacks,
            RunCommand.PROFILE: self.profile,
            RunCommand.PROFILE_RANKS: self.profile,
        }
        return reasons.get(command, "")


def abilities(
    view: RunView | None,
    under_way: Collection[str] = (),
    *,
    is_left_alone: bool = False,
    living_alone: Sequence[str] = (),
) -> Abilities:
    """Return which actions a run allows.

    Args:
        view: view of the run; None if it cannot be read: then it can be stopped by its processes alone.
        under_way: pending requests (`stop`, `stop_now`, `resume`, `attach`).
        is_left_alone: it continues elsewhere, and no local controller follows all of it.
        living_alone: other nodes on which ranks may continue although the run is over.
    """
    if view is None:
        unread = "the run cannot be read"
        return Abilities(
            stop=_asked_to_stop(under_way),
            stop_now=_asked_to_stop_now(under_way),
            resume=unread,
            attach=unread,
            clone=unread,
            delete=unread,
            stacks=unread,
            profile=unread,
        )
    asked = {*under_way, *view.requests_waiting}
    return Abilities(
        stop=_stop(view, asked),
        stop_now=_stop_now(view, asked),
        resume=_resume(view, asked),
        resume_with=_resume(view, asked) if view.kind in ("script", "module") else Abilities.resume_with,
        attach=_attach(view, asked, is_left_alone=is_left_alone),
        clone=why_no_start(view),
        delete=_delete(view, living_alone),
        end_watch=_end_watch(view, asked),
        stacks=_of_ranks(view, asked, RunCommand.STACKS, "its ranks are being examined"),
        profile=_of_ranks(view, asked, RunCommand.PROFILE, "its ranks are being profiled"),
    )


def _of_ranks(view: RunView, asked: Collection[str], command: RunCommand, waiting: str) -> str:
    if view.kind == WATCHED or view.job:
        return why_no_start(view)
    if view.is_over:
        return f"the run has {_over(view)}"
    return waiting if command in asked else ""


def _end_watch(view: RunView, asked: Collection[str]) -> str:
    if view.kind != WATCHED:
        return Abilities.end_watch
    if view.is_over:
        return "the watch is over"
    return "the watch is being ended" if RunCommand.END_WATCH in asked else ""


def _stop(view: RunView, asked: Collection[str]) -> str:
    if view.kind == WATCHED:
        return why_no_start(view)
    if view.is_over and not view.nodes_alone and not view.unfenced:
        return f"the run has {_over(view)}"
    return "it is being stopped" if view.state is RunState.STOPPING else _asked_to_stop(asked)


def _stop_now(view: RunView, asked: Collection[str]) -> str:
    if view.kind == WATCHED:
        return why_no_start(view)
    if view.job:
        return f"only Slurm can end it now: `scancel {view.job}` on the cluster"
    # an agent that has written the end is about to exit itself
    is_left = not view.end_written and view.processes_alive
    if view.is_over and not is_left and not view.nodes_alone and not view.unfenced:
        return f"the run has {_over(view)}"
    return _asked_to_stop_now(asked)


def _asked_to_stop(asked: Collection[str]) -> str:
    return "it is being stopped" if RunCommand.STOP in asked or RunCommand.STOP_NOW in asked else ""


def _asked_to_stop_now(asked: Collection[str]) -> str:
    return "it is being stopped now" if RunCommand.STOP_NOW in asked else ""


def _resume(view: RunView, asked: Collection[str]) -> str:
    if RunCommand.RESUME in asked:
        return "it is being resumed"
    if not view.is_over:
        return f"the run is {view.state.value.lower()}"
    if view.is_foreign:
        return why_no_start(view)
    if view.state is RunState.SUCCEEDED:
        return "the run has succeeded: nothing is left to do"
    if not view.resumable and view.state is not RunState.LOST:
        return "there is no checkpoint to continue from: clone it instead"
    return ""


def _attach(view: RunView, asked: Collection[str], *, is_left_alone: bool) -> str:
    if RunCommand.ATTACH in asked:
        return "its nodes are being connected to"
    if view.is_over:
        return f"the run has {_over(view)}"
    return "" if is_left_alone else "it is followed already"


def _delete(view: RunView, living_alone: Sequence[str]) -> str:
    if not view.is_over:
        first = "end the watch first" if view.kind == WATCHED else "stop it first"
        return f"the run is {view.state.value.lower()}: {first}"
    if living_alone:
        return f"ranks of it continue without their leader on {', '.join(living_alone)}: stop it first"
    return "processes of it are still alive" if view.processes_alive else ""


def _over(view: RunView) -> str:
    cancelled = "been stopped" if view.resumable else "been cancelled"
    words = {RunState.CANCELLED: cancelled, RunState.LOST: "been lost"}
    return words.get(view.state, view.state_word.lower())


# Runs that no local controller follows: their state is as old as the last report of their nodes.


def is_unfollowed(view: RunView | None) -> bool:
    """Return whether no local process knows if the run continues."""
    return view is not None and view.followed_until is not None


def last_known(view: RunView, now: float) -> str:
    """Return the last known state at `now` (unix seconds): `running at the last report, 3 min ago`.

    Empty if the run is followed or over.
    """
    if view.followed_until is None:
        return ""
    heard = ago(max(0.0, now - view.followed_until))
    return f"{LOOKS[view.state].word} at the last report, {heard}"


def is_being_saved(view: RunView, asked: frozenset[str] = frozenset()) -> bool:
    """Return whether a stop is pending or running, after which nothing would be lost."""
    return view.state is RunState.STOPPING or RunCommand.STOP in {*view.requests_waiting, *asked}
