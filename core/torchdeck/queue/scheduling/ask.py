"""Devices that a queued run asks for, and where it is placed: plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torchdeck.config.values.gpu_models import gpu_model


@dataclass(frozen=True)
class Ask:
    """Devices that a run needs at once."""

    nodes: tuple[str, ...]
    """Nodes that may be used, in order of preference."""
    count: int = 1
    """Number of them that the run uses; 0, before names are resolved: all."""
    gpus: int | None = 0
    """GPUs per node; 0: a CPU slot per node; None: all GPUs of each node."""
    model: str = ""
    """Model of the GPUs, by the driver's name or a short one; empty: any."""
    memory: int = 0
    """Least bytes of memory of each GPU."""
    named: tuple[int | str, ...] = ()
    """GPUs by index or UUID, the same on each node; empty: any."""
    or_cpu: bool = False
    """Whether a node without GPUs gives a CPU slot instead."""

    @property
    def is_of_one_model(self) -> bool:
        """Return whether its GPUs are chosen for it, all of one model; it may name nodes or GPUs instead."""
        names_nodes = len(self.nodes) > 1 and self.count in (0, len(self.nodes))
        chooses = bool(self.gpus) and not (self.model or self.named or names_nodes)
        return chooses and (self.gpus or 0) * max(self.count, 1) > 1


class Place(NamedTuple):
    """One node's part of a run."""

    node: str
    gpus: tuple[int, ...] = ()
    """Indices of its GPUs; empty: a CPU slot."""


Places = tuple[Place, ...]


@dataclass(frozen=True)
class Gpu:
    """One GPU of a machine."""

    index: int
    key: str = ""
    """UUID; empty if unknown."""
    model: str = ""
    memory: int = 0
    """Bytes; 0 if unknown."""

    def has_name(self, name: int | str) -> bool:
        """Return whether `name` is its index or its UUID."""
        return name in (self.index, self.key or self.index)

    def is_model(self, name: str) -> bool:
        """Return whether it is of the model `name`; models without a known name are compared as texts."""
        mine, asked = gpu_model(self.model), gpu_model(name)
        if mine is not None and asked is not None:
            return mine.name == asked.name
        return self.model.casefold() == name.casefold()


@dataclass(frozen=True)
class Machine:
    """One machine: what it has, not what is free of it."""

    name: str
    gpus: tuple[Gpu, ...] = ()
    slots: int = 1
    """CPU runs that it takes at once."""
    away: str = ""
    """Why nothing can start on it now; empty if something can."""


class Unit(NamedTuple):
    """One thing that one run holds at a time."""

    node: str
    number: int
    """Index of a GPU; a CPU slot has a number below 0."""

    @property
    def is_slot(self) -> bool:
        return self.number < 0
