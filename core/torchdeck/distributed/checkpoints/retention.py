"""Checkpoints to keep after a new one was saved. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.contract.checkpoints.listing import CheckpointInfo
from torchdeck.contract.checkpoints.manifest import checkpoint_name
from torchdeck.contract.metrics.former_names import current_name

if TYPE_CHECKING:
    from torchdeck.distributed.rank_settings import CheckpointSettings


@dataclass(frozen=True)
class Retention:
    """Rule for keeping checkpoints named by their step; `final` is always kept.

    A step is kept if it is one of the newest `keep_last`, a multiple of `keep_every`, or one of the
    `keep_best` with the best `best_metric` (the newer one on a tie). The one just saved is the newest, so the
    last complete checkpoint is never deleted.

    Raises:
        ValueError: a number is out of range.
    """

    keep_last: int = 3
    keep_every: int | None = None
    """In steps."""
    keep_best: int = 0
    best_metric: str = "validation_loss"
    best_is: Literal["lowest", "highest"] = "lowest"

    def __post_init__(self) -> None:
        object.__setattr__(self, "best_metric", current_name(self.best_metric))  # as manifests are read
        if self.keep_last < 1:
            raise ArgumentError(f"keep_last is {self.keep_last}", fix="at least 1 checkpoint must be kept")
        if self.keep_every is not None and self.keep_every < 1:
            raise ArgumentError(
                f"keep_every is {self.keep_every}", fix="expected a number of steps from 1, or None"
            )
        if self.keep_best < 0:
            raise ArgumentError(f"keep_best is {self.keep_best}", fix="expected 0 or more")
        if self.best_is not in ("lowest", "highest"):
            raise ArgumentError(f"best_is is {self.best_is!r}", fix="expected 'lowest' or 'highest'")

    @classmethod
    def from_settings(cls, settings: CheckpointSettings) -> Retention:
        """Return the rule in a run's [checkpoint] table."""
        return cls(
            keep_last=settings.keep_last,
            keep_every=settings.keep_every,
            keep_best=settings.keep_best,
            best_metric=settings.best_metric,
            best_is=settings.best_is,
        )

    def kept(self, steps: Mapping[int, Mapping[str, float]]) -> dict[int, tuple[str, ...]]:
        """Return the steps to keep, each with the reasons.

        Args:
            steps: steps of all complete checkpoints of one history, with the metrics of each.
        """
        newest = set(sorted(steps)[-self.keep_last :])
        best = set(self.best(steps)[: self.keep_best])

        def reasons(step: int) -> tuple[str, ...]:
            applies = {
                f"newest {self.keep_last}": step in newest,
                f"every {self.keep_every} steps": self.keep_every is not None and step % self.keep_every == 0,
                f"{self.best_is} {self.best_metric}": step in best,
            }
            return tuple(why for why, holds in applies.items() if holds)

        return {step: why for step in steps if (why := reasons(step))}

    def best(self, steps: Mapping[int, Mapping[str, float]]) -> list[int]:
        """Return those of `steps` that have the metric, best first; the newer one first on a tie."""
        sign = 1.0 if self.best_is == "lowest" else -1.0
        measured = {
            step: metrics[self.best_metric] for step, metrics in steps.items() if self.best_metric in metrics
        }
        return sorted(measured, key=lambda step: (sign * measured[step], -step))

    def surplus(self, found: Iterable[CheckpointInfo], newest: int) -> list[CheckpointInfo]:
        """Return the checkpoints that may be deleted now that the checkpoint of step `newest` is committed.

        Checkpoints of later steps belong to an abandoned history. They neither count nor are deleted (they
        are replaced when their step is reached again). A damaged one does not count, and is deleted once
        `keep_last` valid ones are newer.
        """
        history = [info for info in found if info.step <= newest and is_named_by_step(info)]
        complete = {
            info.step: info.manifest.current_metrics
            for info in history
            if info.complete and info.manifest is not None
        }
        oldest = sorted({*complete, newest})[-self.keep_last :][0]
        kept = self.kept(complete)
        return [
            info
            for info in history
            if info.step < oldest and info.manifest is not None and not (info.complete and info.step in kept)
        ]


def is_named_by_step(info: CheckpointInfo) -> bool:
    """Return whether its folder is `step_<step>`: not `final`, nor one moved elsewhere."""
    return info.path.name == checkpoint_name(info.step)
