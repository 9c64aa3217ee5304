"""Policy of a run's agents. Standard library only, Python 3.10: nodes read it too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CheckpointPolicy:
    """Location of checkpoints and the one to resume from."""

    directory: str
    """May hold slots."""
    resume: str
    """`auto`, `never`, or a checkpoint's path."""
    every_steps: int | None
    keep_last: int
    resume_args: tuple[str, ...] = ()
    """Appended to a script's command if it continues from its own checkpoint; may hold slot `checkpoint`."""
    resume_by: str = ""
    """`trainers.resume.ResumeBy`, if it is known how a script continues; else empty."""


@dataclass(frozen=True)
class StdoutPolicy:
    """Policy for parsing metrics from a script's output."""

    enabled: bool
    patterns: tuple[str, ...] = ()
    """The user's own regular expressions with named groups; tried before the known ones."""


@dataclass(frozen=True)
class Policy:
    """Policy of the leader. Durations in seconds."""

    max_restarts: int = 0
    restart_delay: float = 1.0
    on_hang: str = "watch"
    """`watch`, `stop`, `restart` or `exclude`."""
    hang_after: float = 30.0
    """A rank is flagged if it makes no progress for longer than max(this, 5 × its 99th percentile step time).
    """
    cooperative_stop: bool = False
    """Whether ranks poll for a stop, save and exit (a recipe); else a stop is SIGTERM."""
    stop_grace: float = 120.0
    """Seconds for ranks to finish the step, save and exit."""
    kill_grace: float = 10.0
    """Seconds from SIGTERM to SIGKILL."""
    queue: bool = False
    """Wait for devices that another run holds, instead of being refused."""
    min_free_bytes: int = 0
    """With less free disk a run is stopped with a checkpoint, while there is space."""
    max_seconds: float | None = None
    """Seconds after which a run is stopped with a checkpoint; None: no limit."""
    system_interval: float = 1.0
    node_grace: float = 120.0
    """Seconds without contact to the leader after which a node is given up; the same for a silent leader."""
    node_silent: float = 15.0
    """Seconds after which a silent node is flagged."""
    unattended: str = "stop"
    """Fate of a node's ranks if its leader is given up: `stop` or `continue`."""
    lost_after: float | None = None
    """Seconds without any node after which the controller gives up the run; None: never."""

    def to_json(self) -> dict[str, Any]:
        """Return every field; those about several nodes only if they differ from the default.

        Plans older than multi-node support have none of them, but have a fingerprint.
        """
        several = ("node_grace", "node_silent", "unattended", "lost_after")
        usual = {name: getattr(Policy, name) for name in several}
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in values.items() if name not in usual or usual[name] != value}
