"""Reads the launcher's variables: torchrun's (RANK, ...) and Torchdeck's (TORCHDECK_RUN_DIR, ...).

Standard library, Python 3.10. Names and meaning as in torchrun's documentation ("Environment Variables").
"""

from __future__ import annotations

import dataclasses
import math
import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from torchdeck.contract.arguments.checked_call import arguments, checked_class
from torchdeck.contract.arguments.errors import ArgumentError, shown, unknown_name
from torchdeck.contract.arguments.types import described, fits
from torchdeck.contract.layout import AttemptLayout, RunLayout
from torchdeck.contract.rank_layout import RankLayout
from torchdeck.contract.refusal import Refusal

if TYPE_CHECKING:
    from typing_extensions import Unpack

BACKENDS = ("auto", "gloo", "nccl")
"""Valid values of `DistributedConfig.backend`."""

STORE_VARIABLE = "TORCHDECK_STORE"
"""ADDRESS:PORT where the ranks of a recipe connect to the store on their own node, if not at the rendezvous.
"""
_LONGEST_NUMBER = 18
_LAST_PORT = 65535


class LauncherVariableError(Refusal, ValueError):
    """A variable is missing or invalid; the message gives the variable, its value and the rule."""

    page = "library"


@dataclass(frozen=True)
class Place:
    """Position of a rank in the gang.

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
        """Read this process's variables; see `DistributedConfig.from_env`.

        Raises:
            LauncherVariableError: one is missing, not a number, or contradicts another.
        """
        return DistributedConfig.from_env(environ).place


class DistributedValues(TypedDict, total=False):
    """Attributes of a `DistributedConfig`, as keywords of functions that make one."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    master_addr: str
    master_port: int
    backend: str
    timeout: float


@checked_class
@dataclass(frozen=True)
class DistributedConfig(Place):
    """The place of a process among the ranks, and where the ranks meet.

    Attributes, beside those of a Place:
        master_addr: address of rank 0's node, where the ranks meet.
        master_port: port there.
        backend: `nccl` or `gloo` (or `cpu`, which is gloo); `auto` is nccl for ranks with a GPU of their
            own, else gloo.
        timeout: how long a rank waits for the others, in seconds.

    Raises:
        LauncherVariableError: the numbers contradict each other.
        ArgumentError: a value is of the wrong type.
    """

    master_addr: str = "127.0.0.1"
    master_port: int = 29500
    backend: str = "auto"
    timeout: float = 600.0

    def __post_init__(self) -> None:
        _check_types(type(self), {name: getattr(self, name) for name in DistributedValues.__annotations__})
        for field in dataclasses.fields(self):
            if type(field.default) is int:  # not one of NumPy, which JSON does not know
                object.__setattr__(self, field.name, operator.index(getattr(self, field.name)))
        _check("WORLD_SIZE", self.world_size, 1)
        _check("RANK", self.rank, 0, self.world_size - 1, "WORLD_SIZE - 1")
        _check("LOCAL_WORLD_SIZE", self.local_world_size, 1, self.world_size, "WORLD_SIZE")
        _check("LOCAL_RANK", self.local_rank, 0, self.local_world_size - 1, "LOCAL_WORLD_SIZE - 1")
        # a node's ranks are consecutive, so those before this one on its node precede it in the gang
        _check("LOCAL_RANK", self.local_rank, 0, self.rank, "RANK")
        _check("MASTER_PORT", self.master_port, 1, _LAST_PORT)
        if self.backend == "cpu":
            object.__setattr__(self, "backend", "gloo")  # as for any field of a frozen dataclass
        if self.backend not in BACKENDS:
            raise LauncherVariableError(
                f"DISTRIBUTED_BACKEND is {self.backend!r}", fix="expected nccl for GPUs, or cpu (gloo)"
            )
        if not (math.isfinite(self.timeout) and self.timeout > 0):
            raise LauncherVariableError(
                f"the timeout is {self.timeout} s",
                fix="expected a number of seconds above 0 (DISTRIBUTED_TIMEOUT_MS in milliseconds)",
            )

    @classmethod
    @arguments(own_checks=True)
    def from_env(
        cls, environ: Mapping[str, str] = os.environ, **explicit: Unpack[DistributedValues]
    ) -> DistributedConfig:
        """Read the launcher's variables; a process that was not launched is a group of one.

        RANK (or WORLD_RANK), WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
        DISTRIBUTED_BACKEND (nccl or cpu) and DISTRIBUTED_TIMEOUT_MS. Without LOCAL_WORLD_SIZE all ranks are
        on one node; without LOCAL_RANK it is RANK modulo LOCAL_WORLD_SIZE.

        Args:
            environ: the variables.
            explicit: attributes that override them.

        Raises:
            LauncherVariableError: a variable is missing, not a number, or contradicts another.
            ArgumentError: `explicit` has an unknown name, or a value of the wrong type.
        """
        _check_types(cls, explicit)
        return cls(**{**_from_variables(environ, explicit), **explicit})

    @arguments(own_checks=True)
    def with_backend(self, backend: str) -> DistributedConfig:
        """A copy with another backend."""
        return dataclasses.replace(self, backend=backend)

    def variables(self) -> dict[str, str]:
        """The launcher's variables for this rank and meeting point, under torchrun's names."""
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_world_size),
            "MASTER_ADDR": self.master_addr,
            "MASTER_PORT": str(self.master_port),
        }

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    @property
    def is_distributed(self) -> bool:
        """Whether there is more than one rank."""
        return self.world_size > 1

    @property
    def place(self) -> Place:
        return Place(self.rank, self.world_size, self.local_rank, self.local_world_size)


@dataclass(frozen=True)
class RunContext:
    """The run a process belongs to; outside a run there is no folder, and nothing is reported.

    Attributes:
        run_id: the run's id, empty outside a run.
        run_dir: the run's directory; None outside a run.
        attempt: number of the attempt, from 1; 0 outside a run.
        resume: checkpoint to resume from; None to start from scratch.
    """

    run_id: str = ""
    run_dir: Path | None = None
    attempt: int = 0
    resume: Path | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> RunContext:
        """Read TORCHDECK_RUN_ID, _RUN_DIR, _ATTEMPT and _RESUME; an empty value counts as unset.

        Raises:
            LauncherVariableError: the attempt is not a number.
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
        """Return the file whose existence tells ranks to finish the step, save and exit."""
        layout = self.attempt_layout
        return layout.stop if layout else None

    def rank_layout(self, rank: int) -> RankLayout | None:
        """Return the files of one rank in this attempt."""
        layout = self.attempt_layout
        return layout.rank(rank) if layout else None


def rank_layout(environ: Mapping[str, str] = os.environ) -> RankLayout | None:
    """Return where this process's rank keeps its files; None outside a Torchdeck run.

    Raises:
        LauncherVariableError: it is in a run, and the variables that identify the rank are not numbers.
    """
    if not environ.get("TORCHDECK_RUN_DIR") or not environ.get("RANK"):
        return None
    return RunContext.from_env(environ).rank_layout(_number(environ, "RANK", 0, None))


def _from_variables(environ: Mapping[str, str], explicit: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes of a DistributedConfig; those in `explicit` are read only if others are derived from
    them.
    """
    values: dict[str, Any] = _place_from(environ, explicit)
    if environ.get("MASTER_ADDR"):
        values["master_addr"] = environ["MASTER_ADDR"]
    if environ.get("MASTER_PORT") and "master_port" not in explicit:
        values["master_port"] = _number(environ, "MASTER_PORT", 1, _LAST_PORT)
    if environ.get("DISTRIBUTED_BACKEND"):
        values["backend"] = environ["DISTRIBUTED_BACKEND"]
    if environ.get("DISTRIBUTED_TIMEOUT_MS") and "timeout" not in explicit:
        values["timeout"] = _number(environ, "DISTRIBUTED_TIMEOUT_MS", 1, None) / 1000
    return values


def _place_from(environ: Mapping[str, str], explicit: Mapping[str, Any]) -> dict[str, int]:
    def known(attribute: str, *names: str) -> int | None:
        """Return the explicit value, else that of the first variable that is set."""
        if attribute in explicit:
            return int(explicit[attribute])
        name = next((name for name in names if environ.get(name)), None)
        return None if name is None else _number(environ, name, 0, None)

    rank, world_size = known("rank", "RANK", "WORLD_RANK"), known("world_size", "WORLD_SIZE")
    if rank is None and world_size is None:
        return {}
    if world_size is None:
        raise LauncherVariableError("WORLD_SIZE is not set", fix="expected a whole number from 1")
    if rank is None:
        high = max(0, world_size - 1)
        raise LauncherVariableError(
            "RANK is not set", fix=f"expected a whole number from 0 to {high} (WORLD_SIZE - 1)"
        )
    local_world_size = known("local_world_size", "LOCAL_WORLD_SIZE")
    if local_world_size is None:
        local_world_size = world_size
    local_rank = known("local_rank", "LOCAL_RANK")
    if local_rank is None:
        local_rank = rank % max(1, local_world_size)
    return {
        "rank": rank,
        "world_size": world_size,
        "local_rank": local_rank,
        "local_world_size": local_world_size,
    }


def _check_types(cls: type[DistributedConfig], values: Mapping[str, Any]) -> None:
    """Raise ArgumentError for a name that is no attribute, or a value of another kind."""
    kinds = {field.name: type(field.default) for field in dataclasses.fields(cls)}
    for name, value in values.items():
        if name not in kinds:
            raise unknown_name(f"{cls.__name__} has no argument", name, kinds)
        if not fits(value, kinds[name]):
            raise ArgumentError(f"{name} is {shown(value)}", fix=f"expected {described(kinds[name])}")


def _check(name: str, value: int, low: int, high: int | None = None, high_name: str = "") -> None:
    """Raise LauncherVariableError unless `value` is in its range."""
    if value < low or (high is not None and value > high):
        raise LauncherVariableError(f"{name} is {value}", fix=_rule(low, high, high_name))


def _rule(low: int, high: int | None, high_name: str = "") -> str:
    upper = "" if high is None else f" to {high}" + (f" ({high_name})" if high_name else "")
    return f"expected a whole number from {low}{upper}"


def _number(environ: Mapping[str, str], name: str, low: int, high: int | None) -> int:
    """Return the whole number in a variable, at least `low` and at most `high` if given."""
    text = environ.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER):
        said = f"is {text[:40]!r}" if text else "is not set"
        raise LauncherVariableError(f"{name} {said}", fix=_rule(low, high))
    value = int(text)
    _check(name, value, low, high)
    return value
