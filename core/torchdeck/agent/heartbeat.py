"""heartbeat.json: one small file, overwritten each second: sign of life, and progress of each rank."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from torchdeck.agent.ranks.rank_watch import RankState
from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.layout import FORMAT_VERSION
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.contract.run_states import GangPhase


class Heartbeat:
    """Writes one agent's heartbeat. A full disk costs beats, never the agent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = ProcessIdentity.of(os.getpid())
        self._failing = False

    def beat(
        self,
        *,
        attempt: int,
        phase: GangPhase,
        ranks: Mapping[int, RankState],
        torchrun: ProcessIdentity | None,
        holder: ProcessIdentity | None,
        disk_free: int,
        rss: Mapping[int, int],
    ) -> None:
        """Overwrite the file; not synced, since it means nothing after a power cut.

        Args:
            attempt: number of the current attempt, 0 before the first.
            phase: the gang's.
            ranks: rank → its last progress.
            torchrun: the process, if there is one.
            shim: its parent, the shim.
            disk_free: bytes free on the disk of the run directory.
            rss: rank → resident bytes.
        """
        value = {
            "v": FORMAT_VERSION,
            "t": time.time(),
            "m": time.monotonic(),
            "boot": None if self._identity is None else self._identity.boot,
            "agent": _json(self._identity),
            "attempt": attempt,
            "phase": phase,
            "ranks": {str(rank): _rank_json(state) for rank, state in ranks.items()},
            "torchrun": _json(torchrun),
            "holder": _json(holder),
            "disk_free": disk_free,
            "rss_bytes": {str(rank): size for rank, size in rss.items()},
        }
        try:
            write_json(self._path, value, durable=False)
            self._failing = False
        except OSError as error:
            if not self._failing:
                print(f"heartbeat: {error}", file=sys.stderr, flush=True)
            self._failing = True


def last_beat(path: Path) -> float:
    """When an earlier agent of the node beat last, seconds since the epoch; 0 if it is not known."""
    value = read_json(path)
    found = value.get("t") if isinstance(value, dict) else None
    return float(found) if isinstance(found, (int, float)) else 0.0


def _rank_json(state: RankState) -> dict[str, object]:
    return {
        "phase": state.phase,
        "step": state.step,
        "total": state.total,
        "t": state.time,
        "still": round(state.still, 3),
        "pid": state.pid,
    }


def _json(identity: ProcessIdentity | None) -> dict[str, object] | None:
    return None if identity is None else identity.to_json()
