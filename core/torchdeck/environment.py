"""What the launcher's variables say: torchrun's (RANK, ...) and Torchdeck's (TORCHDECK_RUN_DIR, ...).

Standard library, Python 3.10. Names and meaning as in torchrun's documentation ("Environment Variables").
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torchdeck.rundir.layout import AttemptLayout, RankLayout, RunLayout

_LONGEST_NUMBER = 18


class LauncherVariableError(ValueError):
    """A variable is missing or cannot be true; the message says which, what it is and the rule."""


@dataclass(frozen=True)
class Place:
    """Where a rank stands in the gang.

    Attributes:
        rank: 0 to world_size - 1, over all nodes.
        world_size: ranks in all.
        local_rank: 0 to local_world_size - 1, on this node.
        local_world_size: ranks on this node.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Place:
        """What the variables of this process say; a process that no launcher started is alone.

        A rank started by hand may leave out the local ones: all ranks are on one node then.

        Raises:
            LauncherVariableError: one is missing, no number, or contradicts another.
        """
        if not any(environ.get(name) for name in ("RANK", "WORLD_SIZE")):
            return cls()
        world_size = _number(environ, "WORLD_SIZE", 1, None)
        rank = _number(environ, "RANK", 0, world_size - 1, "WORLD_SIZE - 1")
        local_world_size = world_size
        if environ.get("LOCAL_WORLD_SIZE"):
            local_world_size = _number(environ, "LOCAL_WORLD_SIZE", 1, world_size, "WORLD_SIZE")
        local_rank = rank % local_world_size
        if environ.get("LOCAL_RANK"):
            local_rank = _number(environ, "LOCAL_RANK", 0, local_world_size - 1, "LOCAL_WORLD_SIZE - 1")
        return cls(rank, world_size, local_rank, local_world_size)


@dataclass(frozen=True)
class RunContext:
    """The run a process belongs to; outside of one there is no folder, and nothing is reported.

    Attributes:
        run_id: the run's id, empty outside a run.
        run_dir: the run's directory; None outside a run.
        attempt: number of the attempt, from 1; 0 outside a run.
        resume: checkpoint to go on from; None to start afresh.
    """

    run_id: str = ""
    run_dir: Path | None = None
    attempt: int = 0
    resume: Path | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> RunContext:
        """TORCHDECK_RUN_ID, _RUN_DIR, _ATTEMPT and _RESUME; an empty text is as good as none.

        Raises:
            LauncherVariableError: the attempt is no number.
        """
        folder, resume = environ.get("TORCHDECK_RUN_DIR"), environ.get("TORCHDECK_RESUME")
        return cls(
            run_id=environ.get("TORCHDECK_RUN_ID", ""),
            run_dir=Path(folder) if folder else None,
            attempt=_number(environ, "TORCHDECK_ATTEMPT", 1, None) if folder else 0,
            resume=Path(resume) if resume else None,
        )

    @property
    def attempt_layout(self) -> AttemptLayout | None:
        return RunLayout(self.run_dir).attempt(self.attempt) if self.run_dir else None

    @property
    def stop_file(self) -> Path | None:
        """Appears when the ranks should finish the step, save and exit."""
        layout = self.attempt_layout
        return layout.stop if layout else None

    def rank_layout(self, rank: int) -> RankLayout | None:
        """The files of one rank in this attempt."""
        layout = self.attempt_layout
        return layout.rank(rank) if layout else None


def rank_layout(environ: Mapping[str, str] = os.environ) -> RankLayout | None:
    """Where this process's rank keeps its files; None outside a Torchdeck run.

    Raises:
        LauncherVariableError: it is in one, and the variables that say which rank are no numbers.
    """
    if not environ.get("TORCHDECK_RUN_DIR") or not environ.get("RANK"):
        return None
    return RunContext.from_env(environ).rank_layout(_number(environ, "RANK", 0, None))


def _number(
    environ: Mapping[str, str], name: str, low: int, high: int | None, high_name: str | None = None
) -> int:
    """The whole number in a variable.

    Args:
        environ: the variables.
        name: which one.
        low: least allowed value.
        high: greatest allowed value, if there is one.
        high_name: what `high` is called in the message.
    """
    text = environ.get(name, "")
    upper = "" if high is None else f" to {high}" + (f" ({high_name})" if high_name else "")
    rule = f"right is a whole number from {low}{upper}"
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER):
        raise LauncherVariableError(
            f"{name} is {text[:40]!r}: {rule}" if text else f"{name} is not set: {rule}"
        )
    value = int(text)
    if value < low or (high is not None and value > high):
        raise LauncherVariableError(f"{name} is {value}: {rule}")
    return value
