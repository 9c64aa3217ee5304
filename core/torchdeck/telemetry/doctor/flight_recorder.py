"""PyTorch's flight recorder in this process: JSON only. torch is used once the program has imported it."""

from __future__ import annotations

import contextlib
import json
import sys
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from torchdeck.contract.doctor.rank_heartbeat import MOST_GROUPS, NAME_LIMIT, GroupCounts

RECENT = 12
"""Newest collectives of a group in the summary."""
_ENTRY = b'{"collective_seq_id":'
"""Beginning of a collective in torch's JSON, whose keys are sorted."""
_NAMED = 256
"""Newest collectives in which the names of new groups are looked for."""
_NAMES = ("_dump_fr_trace_json", "_dump_nccl_trace_json")


class Counts(NamedTuple):
    """Sequence numbers, added up over the process groups."""

    enqueued: int = 0
    completed: int = 0
    groups: int = 0
    by_id: Mapping[str, tuple[int, int]] = MappingProxyType({})
    """torch's id of a group → numbers of its last enqueued and completed collective."""

    def by_group(self, names: Mapping[str, str]) -> tuple[GroupCounts, ...]:
        """Return the numbers of the groups whose name is known, those with pending collectives first.

        Args:
            names: id → name, by `group_names`. An id is this process's own, a name the same on all ranks.
        """
        known = [
            GroupCounts(names[own], *numbers)
            for own, numbers in self.by_id.items()
            if len(names.get(own, "")) in range(1, NAME_LIMIT + 1)
        ]
        return tuple(sorted(known, key=lambda each: each.enqueued <= each.completed)[:MOST_GROUPS])


def counts() -> Counts:
    """Return the numbers of the last collectives; takes some 10 µs to 100 µs."""
    dump = _dump()
    if dump is None:
        return Counts()
    status = json.loads(dump(False, False)).get("pg_status", {})  # noqa: FBT003 - positional only
    by_id = {
        own: (
            max(0, int(group["last_enqueued_collective"])),
            max(0, int(group["last_completed_collective"])),
        )
        for own, group in status.items()
    }
    enqueued, completed = map(sum, zip(*by_id.values(), strict=True)) if by_id else (0, 0)
    return Counts(enqueued, completed, len(status), by_id)


def group_names(recorded: bytes) -> dict[str, str]:
    """Return id → name of the groups of the newest collectives; takes some milliseconds."""
    entries = _newest_entries(recorded, _NAMED)
    return {str(entry["pg_id"]): str(entry["process_group"][0]) for entry in entries}


def shortest_timeout() -> float:
    """Return the shortest timeout of the process groups in seconds; 0 if it is not known."""
    world = getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_world", None)
    found = []
    for group in list(getattr(world, "pg_map", ())):
        with contextlib.suppress(AttributeError, RuntimeError):  # torch's own names; a group may be destroyed
            for device in group._device_types:  # noqa: SLF001 - torch has no public name
                timeout = group._get_backend(device).options._timeout  # noqa: SLF001 - the same
                found.append(float(timeout.total_seconds()))
    return min(found, default=0.0)


def whole() -> bytes:
    """Return everything recorded, as JSON; empty if there is nothing. Takes some 20 µs per collective."""
    dump = _dump()
    return b"" if dump is None else bytes(dump(True, False))  # noqa: FBT003 - positional only


class Call(NamedTuple):
    """One collective that the program called."""

    group: str
    sequence: int
    time: int
    """Microseconds since the epoch."""
    kind: int
    """A number for operation and size, below 65,536."""
    spent: int | None
    """Microseconds that the device was in it; None if the backend does not measure it."""


def newest_calls(recorded: bytes, most: int) -> list[Call]:
    """Return the newest `most` collectives, oldest first, without sends and receives.

    Reads the end of `recorded` only: all of it takes some 20 µs per collective, with Python's lock held.
    """
    return [_call(entry) for entry in _newest_entries(recorded, most) if not entry["is_p2p"]]


def _call(entry: dict[str, Any]) -> Call:
    lasted = entry.get("duration_ms")
    spent = round(lasted * 1000) if isinstance(lasted, (int, float)) and lasted >= 0 else None
    name, sequence = str(entry["process_group"][0]), int(entry["collective_seq_id"])
    kind = zlib.crc32(f"{entry['profiling_name']} {entry['input_sizes']}".encode()) & 0xFFFF
    return Call(name, sequence, int(entry["time_created_ns"]) // 1000, kind, spent)


def _newest_entries(recorded: bytes, most: int) -> list[dict[str, Any]]:
    at = len(recorded)
    for _ in range(most):
        before = recorded.rfind(_ENTRY, 0, at)
        if before < 0:
            break
        at = before
    decoder, found, rest = json.JSONDecoder(), [], recorded[at:].decode()
    at = 0
    while rest.startswith(_ENTRY.decode(), at):
        entry, at = decoder.raw_decode(rest, at)
        found.append(entry)
        at += rest.startswith(",", at)
    return found


def summary(recorded: bytes) -> dict[str, Any]:
    """Return the groups that this rank is in, and the newest collectives of each."""
    entries = json.loads(recorded).get("entries", []) if recorded else []
    by_group: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        by_group.setdefault(str(entry["process_group"][0]), []).append(_collective(entry))
    newest = [item for group in by_group.values() for item in group[-RECENT:]]
    return {"groups": _groups(), "collectives": newest}


def _collective(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "group": str(entry["process_group"][0]),
        "sequence": entry["p2p_seq_id"] if entry["is_p2p"] else entry["collective_seq_id"],
        "p2p": bool(entry["is_p2p"]),
        "operation": str(entry["profiling_name"]),
        "shapes": str(entry["input_sizes"]),
        "types": ",".join(map(str, entry["input_dtypes"])),
        "done": bool(entry["retired"]) or entry["state"] == "completed",
        "started": entry["state"] in ("started", "completed"),
    }


def _groups() -> list[dict[str, Any]]:
    world = getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_world", None)
    found = []
    for group, name in dict(getattr(world, "pg_names", {})).items():
        ranks = sorted(world.pg_group_ranks.get(group, {})) if world is not None else []
        found.append(
            {"group": str(name), "description": str(getattr(group, "group_desc", "")), "ranks": ranks}
        )
    return found


def _dump() -> Callable[[bool, bool], bytes] | None:
    """Return torch's function once the program has made a process group.

    Not before: the recorder reads its variables at its first use, and the program may set them until then.
    """
    distributed = sys.modules.get("torch.distributed.distributed_c10d")
    if distributed is None or getattr(getattr(distributed, "GroupMember", None), "WORLD", None) is None:
        return None
    module = sys.modules.get("torch._C._distributed_c10d")
    return next((found for name in _NAMES if (found := getattr(module, name, None)) is not None), None)
