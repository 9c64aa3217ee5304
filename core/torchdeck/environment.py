"""What the launcher's variables say: torchrun's (RANK, WORLD_SIZE, ...) and Torchdeck's (TORCHDECK_RUN_DIR,
...).

Standard library, Python 3.10. Names and meaning as in torchrun's documentation ("Environment Variables").
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torchdeck.rundir.layout import RankLayout, RunLayout

_TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_LONGEST_NUMBER = 18
_HIGHEST_PORT = 65535


class LauncherVariableError(ValueError):
    """A variable is missing or cannot be true; the message says which, what it is and the rule."""


@dataclass(frozen=True)
class RankEnvironment:
    """One rank's place in the gang and in the run.

    Attributes:
        rank: 0 to world_size - 1, over all nodes.
        local_rank: 0 to local_world_size - 1, on this node.
        world_size: ranks in all.
        local_world_size: ranks on this node.
        master_addr: name or address where rank 0 listens.
        master_port: 1 to 65535.
        run_dir: the run's directory; None outside a Torchdeck run.
        attempt: number of the attempt, from 1; 0 outside a Torchdeck run.
        resume: checkpoint to go on from; None to start afresh.
    """

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    master_addr: str
    master_port: int
    run_dir: Path | None = None
    attempt: int = 0
    resume: Path | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> RankEnvironment:
        """What the variables of this process say.

        Raises:
            LauncherVariableError: one is missing, no number, or contradicts another.
        """
        missing = [name for name in _TORCHRUN if not environ.get(name)]
        if missing:
            raise LauncherVariableError(
                f"{', '.join(missing)} not set: a rank is started by torchrun or by Torchdeck, which set "
                f"{', '.join(_TORCHRUN)}"
            )
        world_size = _number(environ, "WORLD_SIZE", 1, None)
        local_world_size = _number(environ, "LOCAL_WORLD_SIZE", 1, world_size, "WORLD_SIZE")
        resume = environ.get("TORCHDECK_RESUME")
        return cls(
            rank=_number(environ, "RANK", 0, world_size - 1, "WORLD_SIZE - 1"),
            local_rank=_number(environ, "LOCAL_RANK", 0, local_world_size - 1, "LOCAL_WORLD_SIZE - 1"),
            world_size=world_size,
            local_world_size=local_world_size,
            master_addr=environ["MASTER_ADDR"],
            master_port=_number(environ, "MASTER_PORT", 1, _HIGHEST_PORT),
            run_dir=_run_dir(environ),
            attempt=_attempt(environ),
            resume=Path(resume) if resume else None,
        )


def rank_layout(environ: Mapping[str, str] = os.environ) -> RankLayout | None:
    """Where this process's rank keeps its files; None outside a Torchdeck run.

    Raises:
        LauncherVariableError: it is in one, and the variables that say which rank are no numbers.
    """
    run_dir = _run_dir(environ)
    if run_dir is None or not environ.get("RANK"):
        return None
    return RunLayout(run_dir).attempt(_attempt(environ)).rank(_number(environ, "RANK", 0, None))


def _run_dir(environ: Mapping[str, str]) -> Path | None:
    text = environ.get("TORCHDECK_RUN_DIR")
    return Path(text) if text else None


def _attempt(environ: Mapping[str, str]) -> int:
    return _number(environ, "TORCHDECK_ATTEMPT", 1, None) if _run_dir(environ) else 0


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
