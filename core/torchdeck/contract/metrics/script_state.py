"""script.json: how far a script is that reports no progress of its own, and which layer says so.

One small JSON file per rank, replaced whole by the agent. A recipe has a progress file instead.
Standard library, Python 3.10.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.layout import FORMAT_VERSION
from torchdeck.contract.run_states import RankPhase

COUNTED = "counted"
"""Layer of optimizer steps that were counted: those of this process, whatever the program counts."""
LAYERS = ("log", "trainer", "inside", "file", "stdout", "stderr", COUNTED, "arguments")
"""Layers that know of a script's progress, the most trusted first: sources of metrics, counted steps,
then arguments."""
LIMIT = 64 * 1024
"""Most bytes of the file."""
ORIGIN_LIMIT = 512
"""Most characters of an origin."""
_FACTS = ("step", "total", "loss", "epoch")


@dataclass(frozen=True)
class Origin:
    """Where a value comes from."""

    layer: str
    """One of `LAYERS`."""
    name: str
    """For a person, such as `trainer_state.json`, `progress bar` or `--max_steps`."""


@dataclass(frozen=True)
class ScriptState:
    """Progress of one rank's script; None if unknown."""

    step: int | None = None
    """Optimizer steps completed."""
    total: int | None = None
    """Optimizer steps planned."""
    epoch: float | None = None
    phase: RankPhase | None = None
    rate: float | None = None
    """Steps per second, over the last minutes."""
    time: float | None = None
    """Unix seconds at which step or phase changed last."""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """Origin of `step`, `total`, `loss` and `epoch`, for those that are known."""


def write_script_state(path: Path, state: ScriptState) -> None:
    """Replace the file.

    Raises:
        OSError: the old file is unchanged.
    """
    value: dict[str, Any] = {"v": FORMAT_VERSION, **dataclasses.asdict(state)}
    value["origins"] = {name: [origin.layer, origin.name] for name, origin in state.origins.items()}
    write_json(path, value, durable=False)


def read_script_state(path: Path) -> ScriptState | None:
    """Return the state in the file; None if there is none, or it is damaged."""
    try:
        value = read_json(path, limit=LIMIT)
    except OSError:
        return None
    if not isinstance(value, dict) or value.get("v") != FORMAT_VERSION:
        return None
    try:
        phase = RankPhase(value.get("phase"))
    except ValueError:
        phase = None
    return ScriptState(
        step=_whole(value.get("step")),
        total=_whole(value.get("total")),
        epoch=_number(value.get("epoch")),
        phase=phase,
        rate=_number(value.get("rate")),
        time=_number(value.get("time")),
        origins=_origins(value.get("origins")),
    )


def _origins(value: object) -> dict[str, Origin]:
    if not isinstance(value, dict):
        return {}
    found = {}
    for fact in _FACTS:
        pair = value.get(fact)
        if isinstance(pair, list) and len(pair) == 2 and pair[0] in LAYERS and isinstance(pair[1], str):
            found[fact] = Origin(pair[0], pair[1][:ORIGIN_LIMIT])
    return found


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None
