"""Typed values from journal events and heartbeats: of the right type, or a default."""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping
from typing import Any

from torchdeck.contract.journal import LATEST, Event
from torchdeck.runs.run_state import AttemptView, DeviceHolder, Failure

_LARGEST = 2**63


def text(fields: Mapping[str, Any], name: str, default: str = "") -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else default


def whole(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LARGEST:
        return None
    return int(value)


def number(fields: Mapping[str, Any], name: str) -> float | None:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def moment(fields: Mapping[str, Any], name: str) -> float | None:
    """Return unix seconds in the range of valid dates."""
    value = number(fields, name)
    return value if value is not None and 0 <= value < LATEST else None


def wholes(fields: Mapping[str, Any], name: str) -> list[int]:
    """Return the integers in a list; empty if it is not a list."""
    value = fields.get(name)
    return [item for item in value if type(item) is int] if isinstance(value, list) else []


def mapping(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = fields.get(name)
    return value if isinstance(value, Mapping) else {}


def mappings(fields: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = fields.get(name)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def texts(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = fields.get(name)
    return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()


def signal_name(fields: Mapping[str, Any]) -> str | None:
    """Return the name of the signal in `fields`, which may be a name or a number."""
    value = fields.get("signal")
    if isinstance(value, str):
        return value or None
    number_ = whole(fields, "signal")
    if number_ is None:
        return None
    try:
        return signal.Signals(number_).name
    except ValueError:
        return f"signal {number_}"


def failure(value: Any) -> Failure | None:
    """Return what failed first, from an attempt's end; None if nothing did."""
    if not isinstance(value, Mapping):
        return None
    return Failure(
        whole(value, "rank"),
        whole(value, "code"),
        signal_name(value),
        text(value, "message"),
        text(value, "traceback"),
        moment(value, "time"),
    )


def given_up(fields: Mapping[str, Any]) -> str:
    """Return `local rank 2 on localhost: it failed twice …`; empty if no slot is given up."""
    if text(fields, "reason") not in ("smaller", "replaced"):
        return ""
    suspect = mapping(fields, "suspect")
    local_rank, node = whole(suspect, "local_rank"), text(suspect, "node")
    who = f"node {node}" if local_rank is None else f"local rank {local_rank} on {node}"
    why = text(fields, "why")
    parts = [why if why.startswith(who) else f"{who}: {why}"]
    parts += [f"spare node {name} does not answer" for name in texts(fields, "skipped")]
    instead = text(fields, "instead")
    parts += [f"node {instead} takes its place"] if instead else []
    return "; ".join(parts)


def absent(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence for each node that was missing at the run's start, according to its `created`."""
    return tuple(
        f"node {text(item, 'name')} is left out: {text(item, 'why')}" for item in mappings(fields, "absent")
    )


def device_holders(fields: Mapping[str, Any]) -> tuple[DeviceHolder, ...]:
    """Return the holders of the devices."""
    return tuple(
        DeviceHolder(text(item, "device"), text(item, "run_id"), text(item, "name"))
        for item in mappings(fields, "held_by")
    )


def attempt(number_: int, event: Event, given_up: str = "") -> AttemptView:
    """Return an attempt as it was at its start."""
    fields = event.fields
    point = mapping(fields, "resume")
    return AttemptView(
        number=number_,
        reason=text(fields, "reason", "first"),
        started=event.time,
        resume=text(fields, "resume") or text(point, "name"),
        resume_step=whole(fields, "resume_step") if not point else whole(point, "step"),
        world_size=whole(fields, "world_size"),
        global_batch=whole(fields, "global_batch"),
        accumulation=whole(fields, "accumulation"),
        rendezvous=text(fields, "rendezvous"),
        notes=texts(fields, "notes"),
        given_up=given_up,
    )
