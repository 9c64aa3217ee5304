"""States of a run, and the external view of one rank, attempt, hang and failure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from torchdeck.runs.links import LinkState


class RunState(StrEnum):
    """State of a run, named as in DESIGN."""

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
        """Whether nothing runs any more, and nothing will without user action."""
        return self in ENDED


ENDED = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.LOST})


@dataclass(frozen=True)
class Failure:
    """First failure of an attempt."""

    rank: int | None
    code: int | None
    signal: str | None
    """Name of the signal, such as `SIGKILL`."""
    message: str = ""
    traceback: str = ""
    time: float | None = None
    node: str = ""
    """Node of its rank, in a run of several; empty if unknown."""


@dataclass(frozen=True)
class RankExit:
    """End of one rank: an exit code, or the signal that ended it."""

    rank: int
    code: int | None
    signal: str | None
    node: str = ""
    """Node whose agent reported it."""
    time: float | None = None
    """Time of the report, seconds since the epoch."""


@dataclass(frozen=True)
class Hang:
    """Hung rank; durations in seconds."""

    rank: int
    phase: str
    step: int | None
    still: float | None
    limit: float | None
    detail: str = ""
    """The verdict in words; before there were verdicts, what the rank's process did."""
    kind: str = ""
    """`agent.doctor.evidence.Kind` of the verdict; empty if there is none."""
    evidence: str = ""
    """Folder of the evidence on all ranks; relative to the run directory if that is not known."""


@dataclass(frozen=True)
class Straggler:
    """Ranks that make the others wait at collectives."""

    ranks: tuple[int, ...]
    share: float
    """Share of each step that the others wait, from 0 to 1."""
    since: float | None
    """Seconds since the epoch."""
    step: int | None
    """The first slow step; None if the program counts none."""
    detail: str
    """All of it as a sentence."""
    differs: tuple[str, ...]
    """Differences of the first of these ranks, one sentence each."""


@dataclass(frozen=True)
class CheckpointSeen:
    """Complete checkpoint seen by the agent."""

    step: int | None
    path: str
    seconds: float | None = None
    size: int | None = None
    time: float | None = None
    node: str = ""
    """Node whose agent saw it, under this path; empty if unknown."""
    kind: str = ""
    """`CheckpointKind` of one that a script wrote by itself; empty: one of Torchdeck's own."""
    about: bool = False
    """The step is the one that the ranks had reported at that time."""


@dataclass(frozen=True)
class DeviceHolder:
    """Holder of a device."""

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
    """Samples per step; None for a script's."""
    accumulation: int | None = None
    rendezvous: str = ""
    """torchrun's rendezvous: `static` or `c10d`; empty if the journal is of an older agent."""
    notes: tuple[str, ...] = ()
    """Notes on its size, such as that the global batch differs."""
    given_up: str = ""
    """Slot given up from here on, and why; empty if there is none."""


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
    """Live processes of a run on one node."""

    agent: bool = False
    holder: bool = False
    torchrun: bool = False
    link: LinkState | None = None
    """Link to the node; None for this machine."""
    known: bool = True
    """False if unknown: the link to the node is currently down."""

    @property
    def any(self) -> bool:
        return self.agent or self.holder or self.torchrun


@dataclass(frozen=True)
class Liveness:
    """Live processes of a run, and whether the machine has been rebooted since."""

    controller: bool = False
    nodes: dict[str, NodeLiveness] = field(default_factory=dict)
    orphans: bool = False
    """Whether none of the named processes is alive, but others with the run's id are."""
    same_boot: bool = True
    """False if every process in the journals was of an earlier boot."""
    followed_until: float | None = None
    """Time of the last report of a controller here on the run's nodes, unix seconds, if none reports now.
    None if one does, and for a run on this machine alone.
    """

    @property
    def nodes_alive(self) -> bool:
        """Whether any process is or may be alive: what cannot be seen is not taken for dead."""
        return self.orphans or any(node.any or not node.known for node in self.nodes.values())

    @property
    def seen_alive(self) -> bool:
        """Whether any process is known to be alive."""
        return self.orphans or any(node.any for node in self.nodes.values())

    @property
    def agent(self) -> bool:
        return any(node.agent for node in self.nodes.values())
