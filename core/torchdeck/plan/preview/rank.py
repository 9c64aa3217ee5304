"""Full preview of one rank."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from torchdeck.contract.plan.launch_plan import RankPlacement
from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.data.step_order import StepOrder
from torchdeck.plan.planned_counts import step_order
from torchdeck.plan.preview.tensors import TensorRows, tensors_of

if TYPE_CHECKING:
    from torchdeck.plan.preview.preview import Preview


@dataclass(frozen=True)
class MicrobatchPreview:
    """One of a rank's first microbatches."""

    step: int
    """Counted from 0."""
    index: int
    """Index in the step, from 0."""
    sample_ids: tuple[int, ...]


@dataclass(frozen=True)
class RankPreview:
    """Device, data and state of a rank."""

    placement: RankPlacement
    shard_group: int
    shard_index: int
    """Position in the group; 0 if every rank holds the whole model."""
    shard: int
    """Ranks per group."""
    samples: int | None
    """Samples in the whole run; None if the data is not known."""
    tokens: float | None
    microbatches: tuple[MicrobatchPreview, ...]
    """First microbatches of the first epoch."""
    tensors: tuple[TensorRows, ...]
    """Empty if nothing is known about the model."""
    memory: PredictedMemory | None

    @property
    def rank(self) -> int:
        return self.placement.rank

    def document(self) -> dict[str, Any]:
        """Return its fields as dicts, lists, strings and numbers; `placement` as in plan.json."""
        value: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return value


FIRST_MICROBATCHES = 3
"""Number of microbatches per rank whose sample ids are shown."""


def make_rank(preview: Preview, rank: int, microbatches: int = FIRST_MICROBATCHES) -> RankPreview:
    """Return everything about one rank, with its first microbatches.

    Raises:
        ValueError: there is no such rank.
    """
    if not 0 <= rank < preview.plan.world_size:
        raise ValueError(f"there is no rank {rank}: ranks go from 0 to {preview.plan.world_size - 1}")
    known, data, prediction = preview.known, preview.data, preview.plan.prediction
    order = None
    if preview.plan.batch is not None:
        order = step_order(preview.config.training, preview.plan.world_size, known)
    return RankPreview(
        placement=preview.plan.ranks[rank],
        shard_group=preview.board.shard_group(rank),
        shard_index=rank % preview.board.shard,
        shard=preview.board.shard,
        samples=None if data is None else int(data.samples[rank]),
        tokens=None if data is None or data.tokens is None else float(data.tokens[rank]),
        microbatches=() if order is None else first_microbatches(order, rank, microbatches),
        tensors=()
        if known.profile is None or preview.spec is None
        else tensors_of(known.profile, preview.spec, rank),
        memory=None if prediction is None else prediction.memory_of(rank),
    )


def first_microbatches(order: StepOrder, rank: int, count: int) -> tuple[MicrobatchPreview, ...]:
    """Return the first `count` microbatches of `rank`, by the steps that the rank itself takes."""
    found: list[MicrobatchPreview] = []
    for number, step in enumerate(order.steps(order.start)):
        parts = step.parts(rank)
        found += [MicrobatchPreview(number, index, tuple(ids.tolist())) for index, ids in enumerate(parts)]
        if len(found) >= count:
            break
    return tuple(found[:count])
