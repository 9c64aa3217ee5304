"""Events of the gang. Plain values; every node refers to itself by its name in the plan."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any, NamedTuple

from torchdeck.agent.doctor.evidence import RankEvidence
from torchdeck.agent.doctor.rank_facts import StragglerReport
from torchdeck.contract.plan.elastic import Place
from torchdeck.contract.run_states import StopCause, StopKind

CRASHES = frozenset((signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE))
"""Signals that no rank dies of because another one did; SIGABRT is how NCCL and gloo give up."""
EXIT_DELAY = 0.9
"""Seconds by which the exit of a rank may be written late; torchrun kills others a second after a failure."""


class Failure(NamedTuple):
    """The first thing that went wrong in an attempt."""

    rank: int | None
    """None when it was torchrun itself, or the launch."""
    code: int | None
    signal: int | None
    """Number of the signal that ended the rank."""
    message: str
    traceback: str | None
    time: float
    """Seconds since the epoch; the earliest of several failures counts."""
    error: float = 0.0
    """Seconds by which `time` may be wrong: times of files tick, and another node's clock is another one."""
    tied: tuple[int, ...] = ()
    """Ranks of other nodes that failed within the clocks' error of it: any of them may have been first."""
    gone: bool = False
    """A node is gone, since `time`: ranks of other nodes that fail later fail because of it."""

    @property
    def explained(self) -> bool:
        """Our trainer ended the rank, and its message says all: the traceback is empty, not unknown."""
        return self.traceback == ""


class ResumePoint(NamedTuple):
    """A checkpoint that a node can resume from, in words that hold on every node."""

    source: str
    """`own` in the run's checkpoint directory, `asked` where checkpoint.resume says, `script` where a script
    saved it."""
    name: str
    """The folder's name there; empty: what checkpoint.resume names is the checkpoint itself."""
    step: int
    """-1: unknown, of a script's."""
    save: str = ""
    """Id of the save if its files lie on several nodes; empty if it lies in one folder. Of a script's: its
    kind.
    """
    parts: tuple[str, ...] = ()
    """The nodes, by their names in its manifest, that wrote its files."""
    here: tuple[str, ...] = ()
    """Those with files on this node; each node reports only its own."""
    created: float = 0.0
    """Unix time of that save."""

    @property
    def has_plain_name(self) -> bool:
        """It names a folder in a place that all nodes know, and leads nowhere else."""
        is_folder = not {"/", "\0"} & set(self.name) and self.name not in (".", "..")
        return is_folder and self.source in ("own", "asked", "script")

    @property
    def everywhere(self) -> ResumePoint:
        """The same for all nodes."""
        return self._replace(here=())


class NodeReady(NamedTuple):
    """The node's agent is there and can take orders."""

    node: str


class LeasesGranted(NamedTuple):
    """The node holds the lease of every device the plan names for it."""

    node: str


class LeasesHeld(NamedTuple):
    """Another run holds devices this node needs; the node holds none then."""

    node: str
    held_by: tuple[Mapping[str, Any], ...]
    """`{device, run_id, name}` each."""


class Offered(NamedTuple):
    """The node's vote on the start of an attempt; the answer to Gather."""

    node: str
    attempt: int
    port: int | None
    """For the rendezvous; of the first node only."""
    points: tuple[ResumePoint, ...]
    """Points that it can resume from, best first."""
    error: str = ""
    """Why it cannot begin at all."""


class NodeSilent(NamedTuple):
    """The node does not answer; it may still come back."""

    node: str
    seconds: float
    """Since its last word."""
    heard: float
    """When that was, seconds since the epoch."""


class NodeBack(NamedTuple):
    """A silent node answers again."""

    node: str


class NodeLost(NamedTuple):
    """The node has been silent for longer than it may; nothing can be ordered there."""

    node: str
    seconds: float
    """Since its last word."""
    heard: float = 0.0
    """When that was, seconds since the epoch."""


class AttemptLaunched(NamedTuple):
    """torchrun was started on the node."""

    node: str
    attempt: int


class LaunchFailed(NamedTuple):
    """torchrun could not be started on the node."""

    node: str
    attempt: int
    why: str
    gone: Place | None = None
    """Place whose device is gone or leased by another run, if that is the reason."""


class RanksUp(NamedTuple):
    """Every rank of the node has been started."""

    node: str
    attempt: int


class RankProgress(NamedTuple):
    """A rank reports that it trains (first time in an attempt, or again)."""

    attempt: int
    rank: int
    step: int


class SavesOnStop(NamedTuple):
    """Rank 0 of a script reports whether its trainer polls for the stop file, and then saves and ends."""

    attempt: int
    saves: bool


class TorchrunExited(NamedTuple):
    """torchrun on the node is gone."""

    node: str
    attempt: int
    code: int | None
    """Exit code, 128 + n for signal n; None if it could not be seen."""
    completed: bool
    """The ranks of the node say they did all their steps."""


class PortLost(NamedTuple):
    """The rendezvous port was taken by another process between choice and use; comes before
    TorchrunExited.
    """

    node: str
    attempt: int


class NodeClean(NamedTuple):
    """Nothing of the attempt is left on the node (but `left` processes that do not die)."""

    node: str
    attempt: int
    killed: int
    left: int
    failure: Failure | None


class HolderLost(NamedTuple):
    """torchrun's parent was killed; torchrun may still run."""

    node: str
    attempt: int


class StopRequested(NamedTuple):
    """A person, or a limit, wants the run to end."""

    kind: StopKind
    why: StopCause
    request: str | None = None
    detail: str = ""


class CheckpointSaved(NamedTuple):
    """A complete checkpoint of this run is there."""

    step: int | None
    """Optimizer steps in it; None: unknown, as of some that a script writes."""


class StacksAsked(NamedTuple):
    """A person wants to know what the ranks do."""

    request: str


class ProfileAsked(NamedTuple):
    """A person wants a profile of some ranks."""

    request: str
    ranks: tuple[int, ...]
    seconds: float


class RanksLate(NamedTuple):
    """The ranks of the node that make no progress for too long are others than before."""

    node: str
    attempt: int
    ranks: tuple[int, ...]


class Examined(NamedTuple):
    """The node's evidence on its ranks; the answer to Examine."""

    node: str
    attempt: int
    examination: str
    ranks: tuple[RankEvidence, ...]


class Arrived(NamedTuple):
    """Ranks of the node have reported when they reached their collectives."""

    node: str
    attempt: int
    reports: tuple[StragglerReport, ...]
    error: float = 0.0
    """Seconds by which the times may be wrong on the leader's clock."""


class HangFlagged(NamedTuple):
    """The ranks hang: the verdict was made, here or by an earlier leader."""

    attempt: int
    rank: int | None
    """The one to blame; None: none alone."""
    detail: str


class Tick(NamedTuple):
    """Time passed."""


Event = (
    NodeReady
    | LeasesGranted
    | LeasesHeld
    | Offered
    | NodeSilent
    | NodeBack
    | NodeLost
    | AttemptLaunched
    | LaunchFailed
    | RanksUp
    | RankProgress
    | SavesOnStop
    | TorchrunExited
    | PortLost
    | NodeClean
    | HolderLost
    | StopRequested
    | CheckpointSaved
    | StacksAsked
    | ProfileAsked
    | RanksLate
    | Examined
    | Arrived
    | HangFlagged
    | Tick
)
