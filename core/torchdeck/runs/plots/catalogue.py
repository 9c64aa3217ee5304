"""Catalogue of a run's plots: its metrics by topic, with titles and units."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from torchdeck.metrics.formula import PREFIX, formula_of
from torchdeck.runs.plots.units import Unit
from torchdeck.trainers.metric_roles import ROLES, Roles

Whose = Literal["rank", "node"]
LOSS = "loss"
OWN = "own:"
"""Beginning of the key of a metric that is known only by its name."""
FORMULA = "formula:"
"""Beginning of the key of a plot of a formula."""


@dataclass(frozen=True)
class Metric:
    """Metric plot: one or more series of the same unit."""

    key: str
    """Identifies the plot in saved settings."""
    title: str
    unit: Unit
    whose: Whose
    names: tuple[str, ...]
    """Metrics in the files, in the order of their colours."""
    labels: tuple[str, ...]
    """Legend label of each series."""
    shown: bool = True
    """Whether the plot is shown by default."""
    about: str = ""
    """Tooltip text."""


_Entry = tuple[str, str, Unit, tuple[str, ...], tuple[str, ...]]
_RANK: tuple[_Entry, ...] = (
    (LOSS, "Loss", "loss", ("loss", "validation_loss"), ("train", "validation")),
    ("throughput", "Throughput", "tok/s", ("tokens_per_s",), ("tokens",)),
    ("samples_per_s", "Samples/s", "smp/s", ("samples_per_s",), ("samples",)),
    ("step_time", "Step time", "s", ("step_time",), ("step",)),
    ("lr", "Learning rate", "", ("lr",), ("lr",)),
    ("grad_norm", "Gradient norm", "", ("grad_norm",), ("norm",)),
    ("memory_peak", "Memory, peak", "bytes", ("memory_peak_bytes",), ("peak",)),
    ("memory_growth", "Memory, growth at peak", "bytes", ("memory_growth_peak_bytes",), ("growth",)),
    ("memory", "Memory now", "bytes", ("memory_bytes",), ("now",)),
    ("save", "Checkpoint time", "s", ("save_stall", "save_seconds"), ("stall", "whole")),
    ("tokens", "Tokens", "count", ("tokens",), ("tokens",)),
    ("samples", "Samples", "count", ("samples",), ("samples",)),
    ("save_interval", "Steps between saves", "count", ("save_interval",), ("interval",)),
)
_HIDDEN = frozenset({"tokens", "samples", "save_interval", "memory", "save"})
_NODE: tuple[_Entry, ...] = (
    ("cpu", "CPU", "%", ("cpu_percent",), ("CPU",)),
    ("host_memory", "Host memory", "bytes", ("memory_used_bytes",), ("used",)),
    ("disk", "Disk, free", "bytes", ("disk_free_bytes",), ("free",)),
    ("network", "Network", "bytes/s", ("net_rx_bytes_per_s", "net_tx_bytes_per_s"), ("in", "out")),
)
_GPU: tuple[tuple[str, str, Unit], ...] = (
    ("util", "GPU utilisation", "%"),
    ("memory_used_bytes", "GPU memory", "bytes"),
    ("temperature_c", "GPU temperature", "°C"),
    ("power_w", "GPU power", "W"),
)
_GPU_NAME = re.compile(r"gpu(\d+)_(\w+)")


_LOSS_TO_COME = Metric(LOSS, "Loss", "loss", "rank", ("loss",), ("train",), about="loss")


def catalogue(
    names: Iterable[str],
    system_names: Iterable[str],
    *,
    awaits_loss: bool = False,
    roles: Roles | None = None,
) -> tuple[Metric, ...]:
    """Return all possible plots in their default order.

    Args:
        names: the ranks' metrics.
        system_names: the nodes' metrics.
        awaits_loss: reserve a place for the loss before any rank has logged, so that the layout does not
            jump.
        roles: of the ranks' metrics: `train/loss` is a loss. Default: those of known programs.
    """
    left = set(names)
    found = _known(_RANK, "rank", left, roles or Roles())
    if awaits_loss and not found and not left:
        found = [_LOSS_TO_COME]
    own = [_own(name) for name in sorted(left)]
    system = set(system_names)
    gpus = _gpus(system)
    return (*found, *own, *gpus, *_known(_NODE, "node", system, Roles()))


def formula_metrics(formulas: Iterable[str]) -> tuple[Metric, ...]:
    """Return the plots of formulas; invalid ones are left out."""
    found = (formula_of(f"{PREFIX}{text}") for text in formulas)
    return tuple(
        Metric(
            f"{FORMULA}{each.text}",
            each.text,
            "",
            "rank",
            (f"{PREFIX}{each.text}",),
            (each.text,),
            about=f"Formula of {', '.join(each.names)}",
        )
        for each in found
        if each is not None
    )


def _known(table: Iterable[_Entry], whose: Whose, left: set[str], roles: Roles) -> list[Metric]:
    made: list[Metric] = []
    for key, title, unit, names, labels in table:
        actual = [
            roles.choose(name, left) if name in ROLES else name if name in left else None for name in names
        ]
        there = [number for number, name in enumerate(actual) if name is not None]
        picked = tuple(name for name in actual if name is not None)
        if not there:
            continue
        left.difference_update(picked)
        twice = key == "samples_per_s" and any(metric.key == "throughput" for metric in made)
        shown = key not in _HIDDEN and not twice
        made.append(
            Metric(key, title, unit, whose, picked, tuple(labels[n] for n in there), shown, ", ".join(picked))
        )
    return made


def _own(name: str) -> Metric:
    """Return a metric known only by its name; those of single tensors are many, and hidden by default."""
    title = name.removeprefix("validation_").replace("_", " ").capitalize()
    if name.startswith("validation_"):
        title = f"{title}, validation"
    unit: Unit = "bytes" if name.endswith("_bytes") else "s" if name.endswith(("_seconds", "_time")) else ""
    single = re.match(r"(grad|weight)_(norm|mean|std|max|nonfinite)/", name) is not None
    return Metric(
        f"{OWN}{name}", name if "/" in name else title, unit, "rank", (name,), (name,), not single, name
    )


def _gpus(system: set[str]) -> list[Metric]:
    parts: dict[str, list[int]] = {}
    for name in system:
        matched = _GPU_NAME.fullmatch(name)
        if matched:
            parts.setdefault(matched[2], []).append(int(matched[1]))
    made = []
    for part, title, unit in _GPU:
        gpus = sorted(parts.get(part, ()))
        if gpus:
            names = tuple(f"gpu{gpu}_{part}" for gpu in gpus)
            labels = tuple(f"GPU {gpu}" for gpu in gpus)
            made.append(Metric(f"gpu_{part}", title, unit, "node", names, labels, about=", ".join(names)))
    return made
