"""Early stopping on validation loss."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol


class EarlyStopping:
    """Counts evaluations without a lower validation loss; all ranks see the same losses and decide alike.

    Args:
        patience: training ends after this many in a row; None: never for this reason.
        min_delta: smallest decrease below the best loss so far that counts as better.
    """

    def __init__(self, patience: int | None, min_delta: float = 0.0) -> None:
        self._patience = patience
        self._min_delta = min_delta
        self._best: float | None = None
        self._best_step = 0
        self._worse = 0

    def evaluated(self, step: int, loss: float) -> None:
        """Record the validation loss after `step` steps."""
        if self._best is None or loss < self._best - self._min_delta:
            self._best, self._best_step, self._worse = loss, step, 0
        else:
            self._worse += 1

    @property
    def reason(self) -> str:
        """Return why training should end; empty while it should continue."""
        if self._patience is None or self._worse < self._patience:
            return ""
        times = "evaluation" if self._worse == 1 else "evaluations"
        by = f" by more than {self._min_delta:g}" if self._min_delta else ""
        return (
            f"validation_loss has not been lower than {self._best:.6g}, of step {self._best_step},{by} for "
            f"{self._worse} {times} in a row"
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint, as JSON."""
        return {"best": self._best, "best_step": self._best_step, "worse": self._worse}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state`; an empty one, from a checkpoint without it, changes nothing."""
        if state:
            self._best = state["best"]
            self._best_step, self._worse = int(state["best_step"]), int(state["worse"])

    def go_on(self, state: Mapping[str, Any]) -> None:
        """Restore `state` if more training is requested: exhausted patience starts again."""
        self.load_state_dict(state)
        if self.reason:
            self._worse = 0


# Stop request, as a file.


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
