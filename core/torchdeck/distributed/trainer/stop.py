"""Stop request, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class StopSource(Protocol):
    """Source from which a rank learns that training should stop."""

    def wished(self) -> bool:
        """Return whether this rank received a stop request; called once per step."""


class StopFlag:
    """Rank 0 polls for the attempt's stop file; the others learn of it in a reduction that runs anyway.

    Args:
        path: file whose existence requests a stop; None: no stop can be requested.
        rank: this rank.
    """

    def __init__(self, path: Path | None, rank: int) -> None:
        self._path = path if rank == 0 else None

    def wished(self) -> bool:
        """Return whether this rank has seen the stop request; always False except on rank 0. One stat call, 1
        to 2 µs.
        """
        return self._path is not None and self._path.exists()
