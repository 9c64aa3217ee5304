"""One entry of the queue, as its file has it: the run to start, what it asks for, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from torchdeck.queue.scheduling.ask import Ask, Places

SUCCEEDED = "SUCCEEDED"
"""State of a run that succeeded."""


class Stage(StrEnum):
    """Stage of an entry; its value is part of `queue list --json`."""

    WAITING = "waiting"
    STARTING = "starting"
    """A server has chosen its devices, and creates the run."""
    RUNNING = "running"
    ENDED = "ended"


class Condition(StrEnum):
    """How another run must end before an entry starts."""

    ENDED = "ended"
    SUCCEEDED = "succeeded"


@dataclass(frozen=True)
class AfterRun:
    """Another run that must be over first."""

    run: str
    """Id of an entry, or of a run."""
    condition: Condition = Condition.ENDED

    def __str__(self) -> str:
        return self.run if self.condition is Condition.ENDED else f"{self.run}:{self.condition}"


@dataclass(frozen=True)
class QueuedFile:
    """Run file as it was when it was queued: a later change of the file does not change the entry."""

    text: str
    path: str
    """Path by which relative paths in `text` resolve."""
    folder: str
    """Working directory of the command, by which relative paths in `overrides` resolve."""
    overrides: tuple[str, ...] = ()
    """Overrides from `--set`."""
    is_file: bool = True
    """Whether `path` is the user's file; else a command line named the script."""


@dataclass(frozen=True)
class DeviceOptions:
    """Options of `queue add` that replace what the run file asks for."""

    gpus: int | None = None
    """GPUs per node; None: as in the run file."""
    model: str = ""
    memory: int = 0
    """Least bytes of memory of each GPU."""
    nodes: str = ""
    """`any`, `any:2`, `tag:fast`, `tag:fast:2`, or names; empty: as in the run file."""


@dataclass(frozen=True)
class Entry:
    """One entry. Times are in seconds since the epoch."""

    id: str
    """`q` and a number."""
    name: str
    """Name of the run."""
    file: QueuedFile
    ask: Ask
    """Its nodes are as the user wrote them: names, groups, ranges, `tag:TAG`, `any`."""
    added: float
    position: int
    """Order of arrival, which `queue move` changes."""
    devices: DeviceOptions = field(default_factory=DeviceOptions)
    """Options that `ask` was made with."""
    priority: int = 0
    user: str = ""
    tags: tuple[str, ...] = ()
    after: tuple[AfterRun, ...] = ()
    limit: float | None = None
    """Longest time that it runs, in seconds, by limits.max_hours; None if there is no limit."""
    expected: float | None = None
    """Length of earlier runs with this name, in seconds; None if there are none."""
    paused: bool = False
    note: str = ""
    """Why it is paused or was not started, as a sentence; empty if there is nothing to say."""
    stage: Stage = Stage.WAITING
    starts: int = 0
    """Number of times that a server has begun to start it."""
    places: Places = ()
    """Where it runs or ran."""
    begun: float | None = None
    """Time at which its current start began."""
    run: str = ""
    """Id of its run."""
    ended: float | None = None
    outcome: str = ""
    """State of its run at the end, such as `SUCCEEDED`."""

    @property
    def number(self) -> int:
        return int(self.id[1:])

    @property
    def token(self) -> str:
        """Name of its current start, which the run records: a server finds the run by it."""
        # with its time: after the queue's file was lost, numbers begin at 1 again
        return f"{self.id}.{self.starts}.{self.begun or 0.0:.3f}"

    @property
    def is_over(self) -> bool:
        return self.stage is Stage.ENDED

    @property
    def has_devices(self) -> bool:
        """Return whether it runs, or is being started."""
        return self.stage in (Stage.STARTING, Stage.RUNNING)

    def waiting_again(self, note: str, *, paused: bool = False) -> Entry:
        """Return it as an entry that waits, because a start of it came to nothing."""
        return replace(
            self, stage=Stage.WAITING, places=(), begun=None, run="", note=note, paused=self.paused or paused
        )
