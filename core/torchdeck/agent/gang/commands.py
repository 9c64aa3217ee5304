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
    """Say what the node can begin an attempt with; answer with Offered. Ends what is left of earlier ones."""

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


class Depart(NamedTuple):
    """The run is over for this node."""

    why: str
    may_return: bool = False
    """The leader was only given up: the node may have an agent again in this life of the run."""


class AnnounceRunning(NamedTuple):
    """Journal that training makes progress."""

    attempt: int


class AnnounceStopping(NamedTuple):
    """Journal the intent to stop, before anything is done about it."""

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
    """Ranks of the next attempt, where that is news."""
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
    | Depart
    | AnnounceRunning
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
