"""Commands of the gang. The agent carries them out in order, and journals those that are new."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from torchdeck.agent.gang.events import Failure, ResumePoint
from torchdeck.contract.plan.elastic import Place
from torchdeck.contract.run_states import FinalState, Outcome, StartReason, StopCause, StopKind


class AcquireLeases(NamedTuple):
    """Try to lease the node's devices; answer with LeasesGranted or LeasesHeld."""

    node: str


class ReleaseLeases(NamedTuple):
    """Give the node's leases back: another node did not get its own."""

    node: str


class RetakeLeases(NamedTuple):
    """The shim is gone and its locks with it: hold the leases in the agent."""

    node: str


class AnnounceQueued(NamedTuple):
    """Journal that the run waits for devices."""

    held_by: tuple[Mapping[str, Any], ...]


class AnnounceRefused(NamedTuple):
    """Journal that the run does not start because of whose devices it wants."""

    held_by: tuple[Mapping[str, Any], ...]


class LaunchAttempt(NamedTuple):
    """Fill the slots, write the attempt's plan, start torchrun on every node."""

    attempt: int
    reason: StartReason
    left_out: tuple[Place, ...] = ()
    """Places that take no part in it."""


class Gather(NamedTuple):
    """Ask the node what it can start an attempt with (answer: Offered). Ends leftovers of earlier ones."""

    node: str
    attempt: int
    left_out: tuple[Place, ...] = ()


class Launch(NamedTuple):
    """Fill the node's slots and start its torchrun; values that all nodes share are given."""

    node: str
    attempt: int
    reason: StartReason
    port: int
    resume: ResumePoint | None
    left_out: tuple[Place, ...] = ()


class Abandon(NamedTuple):
    """Give up an attempt whose torchrun the node has not started; else it does nothing."""

    node: str
    attempt: int


class GoAlone(NamedTuple):
    """The attempt's ranks here continue without a leader: after them torchrun is not to wait for other
    nodes'.
    """

    node: str
    attempt: int


class GoTogether(NamedTuple):
    """The leader is back and has not given the node up: torchrun waits for other nodes' ranks again."""

    node: str
    attempt: int


class CloseAttempt(NamedTuple):
    """The leader has judged the attempt: the node's part of it is over."""

    attempt: int
    outcome: Outcome


class Leave(NamedTuple):
    """The run is over for this node."""

    why: str
    may_return: bool = False
    """The leader was only given up: the node may have an agent again in this session of the run."""


class AnnounceRunning(NamedTuple):
    """Journal that training makes progress."""

    attempt: int


class Examine(NamedTuple):
    """Collect the evidence on the node's ranks, into the examination's folder."""

    node: str
    attempt: int
    examination: str


class Profile(NamedTuple):
    """Profile those of `ranks` that are on the node, into the profile's folder."""

    node: str
    attempt: int
    profile: str
    ranks: tuple[int, ...]
    seconds: float


class AnnounceHang(NamedTuple):
    """Journal that the ranks hang, and why."""

    attempt: int
    rank: int
    """The one to blame, else the one that is stalled for longest."""
    phase: str
    step: int | None
    still: float
    limit: float
    detail: str
    kind: str
    ranks: tuple[int, ...]
    """All that are to blame alike."""
    place: str
    examination: str


class AnnounceExamined(NamedTuple):
    """Journal that a person's request for stacks is answered."""

    attempt: int
    examination: str
    request: str
    detail: str
    kind: str
    ranks: tuple[int, ...]
    """All that were examined."""


class AnnounceHangOver(NamedTuple):
    """Journal that ranks make progress again."""

    ranks: tuple[int, ...]


class AnnounceStraggler(NamedTuple):
    """Journal that ranks make the others wait."""

    attempt: int
    ranks: tuple[int, ...]
    share: float
    """Share of each step that the others wait, from 0 to 1."""
    since: float
    """Seconds since the epoch."""
    step: int | None
    detail: str
    differs: tuple[str, ...]
    """Differences of the first of them, one sentence each."""


class AnnounceStragglerOver(NamedTuple):
    """Journal that ranks do not make the others wait any more."""

    attempt: int
    ranks: tuple[int, ...]


class AnnounceSavesOnStop(NamedTuple):
    """Journal whether a script's trainer saves and ends when it is asked to stop."""

    attempt: int
    saves: bool


class AnnounceStopping(NamedTuple):
    """Journal the stop request, before anything is done about it."""

    kind: StopKind
    why: StopCause
    request: str | None
    detail: str


class TouchStop(NamedTuple):
    """Make the attempt's stop file: ranks finish the step, save and exit."""

    attempt: int


class Terminate(NamedTuple):
    """SIGTERM to torchrun on the node, which passes it to its ranks."""

    node: str


class Kill(NamedTuple):
    """SIGKILL to torchrun and to everything of the run on the node."""

    node: str


class CleanUp(NamedTuple):
    """torchrun is gone: end what it left (SIGTERM, `grace` seconds, SIGKILL); answer with NodeClean."""

    node: str
    attempt: int
    grace: float


class EndAttempt(NamedTuple):
    """Journal how the attempt ended."""

    attempt: int
    outcome: Outcome
    failure: Failure | None
    killed: int
    step: int = 0
    """Most steps that a rank has reported; 0: none did."""
    saved: bool = False
    """A checkpoint was saved in it."""


class AnnounceRestart(NamedTuple):
    """Journal that another attempt follows after `delay` seconds."""

    attempt: int
    delay: float
    reason: StartReason
    suspect: Place | None = None
    """Place whose failure it follows, if the gang may continue without it; given up if `smaller` or
    `replaced`.
    """
    why: str = ""
    """Why it is given up."""
    world_size: int | None = None
    """Ranks of the next attempt, if they change."""
    instead: str = ""
    """The spare node that takes its place."""
    skipped: tuple[str, ...] = ()
    """Spare nodes that do not answer, and are given up too."""


class AnnounceLeftOut(NamedTuple):
    """Journal that the run begins without a node; fields as of AnnounceRestart."""

    reason: StartReason
    suspect: Place | None
    why: str
    world_size: int | None
    instead: str
    skipped: tuple[str, ...]


class Finish(NamedTuple):
    """The run is over."""

    state: FinalState
    why: str


Command = (
    AcquireLeases
    | ReleaseLeases
    | RetakeLeases
    | AnnounceQueued
    | AnnounceRefused
    | LaunchAttempt
    | Gather
    | Launch
    | Abandon
    | GoAlone
    | GoTogether
    | CloseAttempt
    | Leave
    | AnnounceRunning
    | Examine
    | Profile
    | AnnounceHang
    | AnnounceExamined
    | AnnounceStraggler
    | AnnounceStragglerOver
    | AnnounceHangOver
    | AnnounceSavesOnStop
    | AnnounceStopping
    | TouchStop
    | Terminate
    | Kill
    | CleanUp
    | EndAttempt
    | AnnounceRestart
    | AnnounceLeftOut
    | Finish
)
