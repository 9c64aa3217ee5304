"""Phases, outcomes and reasons of a run, as journals and heartbeats spell them.

Standard library, Python 3.10.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

Member = TypeVar("Member", bound="TextEnum")


class TextEnum(str, Enum):
    """Enum whose member equals its text: in JSON, when compared and when formatted; as enum.StrEnum of Python
    3.11.
    """

    __str__ = str.__str__

    def __format__(self, spec: str) -> str:
        return str.__format__(self, spec)

    @classmethod
    def read(cls: type[Member], value: object, default: Member) -> Member:  # noqa: PYI019 - Self needs Python 3.11
        """Return the member that a file names; `default` if it names none of them."""
        try:
            return cls(value)
        except ValueError:
            return default


class GangPhase(TextEnum):
    """Phase of an agent's part of the gang, as in its heartbeat."""

    PREPARING = "preparing"
    LEASING = "leasing"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    WAITING = "waiting"
    """Waits for the next attempt."""
    FINISHED = "finished"
    CONNECTING = "connecting"
    """A follower connects to the leader."""
    FOLLOWING = "following"

    @property
    def has_attempt(self) -> bool:
        """Return whether an attempt has begun and has not been judged."""
        return self in (GangPhase.STARTING, GangPhase.RUNNING, GangPhase.STOPPING)


class RankPhase(TextEnum):
    """Phase of a rank. The order is the number in a progress file: new ones go last."""

    STARTING = "starting"
    LOADING = "loading"
    COMPILING = "compiling"
    TRAINING = "training"
    EVALUATING = "evaluating"
    SAVING = "saving"
    STOPPING = "stopping"
    DONE = "done"
    RUNNING = "running"
    """Its program runs and reports no progress; never in a progress file."""


class StartReason(TextEnum):
    """Reason why an attempt begins."""

    FIRST = "first"
    RESTART = "restart"
    PORT = "port"
    """The last attempt's rendezvous port was taken by another program."""
    NEVER_RAN = "never_ran"
    """The last attempt started no rank."""
    SMALLER = "smaller"
    """Restart with fewer ranks."""
    REPLACED = "replaced"
    """Restart with a spare node in place of one that failed."""


class StopKind(TextEnum):
    """Urgency of a stop."""

    GRACEFUL = "graceful"
    """Ranks finish the step, save and exit."""
    NOW = "now"
    """SIGTERM at once."""


class StopCause(TextEnum):
    """Cause of a stop."""

    USER = "user"
    LIMIT = "limit"
    """launch.max_time."""
    DISK = "disk"
    INODES = "inodes"
    HANG = "hang"
    GONE = "gone"
    """The run directory was deleted."""
    NODE = "node"
    """A node cannot take part."""
    REPLACED = "replaced"
    """A later agent of the run."""
    LEADER = "lead"
    """The leader was given up."""


class Outcome(TextEnum):
    """Outcome of an attempt."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


class FinalState(TextEnum):
    """Final state of a run."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
