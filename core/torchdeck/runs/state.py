"""The states of a run, and what one rank, attempt, hang and failure looks like from outside."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from torchdeck.runs.links import LinkState


class RunState(StrEnum):
    """Where a run is; DESIGN names them."""

    PENDING = "PENDING"
    QUEUED = "QUEUED"
    PREPARING = "PREPARING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    RESTARTING = "RESTARTING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    LOST = "LOST"

    @property
    def is_terminal(self) -> bool:
        """Nothing runs any more, and nothing will without a person."""
        return self in ENDED


ENDED = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.LOST})


@dataclass(frozen=True)
class Failure:
    """What went wrong first in an attempt."""

    rank: int | None
    code: int | None
    signal: str | None
    """Its name, such as `SIGKILL`."""
    message: str = ""
    traceback: str = ""
    time: float | None = None
    node: str = ""
    """Of its rank, in a run of several; empty where it is not known."""


@dataclass(frozen=True)
class RankExit:
    """How one rank ended: an exit code, or the signal that ended it."""

    rank: int
    code: int | None
    signal: str | None
    node: str = ""
    """Whose agent said so."""


@dataclass(frozen=True)
class Hang:
    """A rank that stands still; durations in seconds."""

    rank: int
    phase: str
    step: int | None
    still: float | None
    limit: float | None
    detail: str = ""


@dataclass(frozen=True)
class CheckpointSeen:
    """A complete checkpoint that the agent saw."""

    step: int | None
    path: str
    seconds: float | None = None
    size: int | None = None
    time: float | None = None
    node: str = ""
    """Whose agent saw it, under this path; empty where it is not known."""


@dataclass(frozen=True)
class DeviceHolder:
    """Whose a device is."""

    device: str
    run_id: str
    name: str


@dataclass(frozen=True)
class AttemptView:
    """One start of the run's processes; times in seconds since the epoch."""

    number: int
    reason: str
    started: float
    resume: str = ""
    resume_step: int | None = None
    ended: float | None = None
    outcome: str | None = None
    first_failure: Failure | None = None
    exits: tuple[RankExit, ...] = ()
    world_size: int | None = None
    global_batch: int | None = None
    """Samples of a step; None for a script's."""
    accumulation: int | None = None
    rendezvous: str = ""
    """torchrun's: `static` or `c10d`; empty where the journal is of an older agent."""
    notes: tuple[str, ...] = ()
    """What is to be said of its size, such as that the global batch is another."""
    given_up: str = ""
    """Who was left out from here on, and why; empty where nobody was."""


@dataclass(frozen=True)
class RankView:
    """A rank's last progress, from the heartbeat; `still` is seconds without progress."""

    rank: int
    phase: str
    step: int | None = None
    total: int | None = None
    still: float | None = None
    pid: int | None = None
    rss_bytes: int | None = None
    exit: RankExit | None = None
    """How it ended, if it has; `still` is None then."""


@dataclass(frozen=True)
class NodeLiveness:
    """Which processes of a run are alive on one node."""

    agent: bool = False
    holder: bool = False
    torchrun: bool = False
    link: LinkState | None = None
    """How the node is reached; None for this machine."""
    known: bool = True
    """False where nobody can say: the link to the node is not there now."""

    @property
    def any(self) -> bool:
        return self.agent or self.holder or self.torchrun


@dataclass(frozen=True)
class Liveness:
    """Which processes of a run are alive, and whether the machine has been started anew since."""

    controller: bool = False
    nodes: dict[str, NodeLiveness] = field(default_factory=dict)
    orphans: bool = False
    """None of the named processes is alive, and others that carry the run's id are."""
    same_boot: bool = True
    """False where every process the journals name was of an earlier boot."""
    followed_until: float | None = None
    """When a controller here told of the run's nodes last, unix seconds, where none does now; None where one
    does, and of a run of this machine alone."""

    @property
    def nodes_alive(self) -> bool:
        """Something lives, or may: what nobody can see is not taken for dead."""
        return self.orphans or any(node.any or not node.known for node in self.nodes.values())

    @property
    def seen_alive(self) -> bool:
        """Something is known to live."""
        return self.orphans or any(node.any for node in self.nodes.values())

    @property
    def agent(self) -> bool:
        return any(node.agent for node in self.nodes.values())
