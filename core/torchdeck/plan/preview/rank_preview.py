"""Full preview of one rank."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from torchdeck.contract.plan.launch_plan import RankPlacement
from torchdeck.contract.plan.model_profile import ITEM_SIZES, ModelProfile, TensorInfo
from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.data.step_order import StepOrder
from torchdeck.plan.memory.spec import FULLY_SHARDED, StrategySpec
from torchdeck.plan.planned_counts import step_order

if TYPE_CHECKING:
    from torchdeck.plan.preview.preview import Preview


# Rows of each tensor that a rank holds.

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TensorRows:
    """A rank's share of one parameter."""

    name: str
    shape: tuple[int, ...]
    """Shape of the whole tensor."""
    dtype: str
    first_row: int
    rows: int
    """0 if the rank holds none of it."""
    size: int
    """Bytes of those rows, without the padding that FSDP stores next to them."""


@dataclass(frozen=True, eq=False)
class HeldRows:
    """A rank's share of every tensor, in their order; shape (n,) each."""

    first_row: Ints
    rows: Ints
    sizes: Ints
    """Bytes."""


@dataclass(frozen=True, eq=False)
class TensorTable:
    """Parameters in columns, for models with a hundred thousand of them."""

    tensors: tuple[TensorInfo, ...]

    @cached_property
    def lengths(self) -> Ints:
        """Rows of each tensor: its first dimension, 1 for a scalar; shape (n,)."""
        return np.array([tensor.shape[0] if tensor.shape else 1 for tensor in self.tensors], dtype=np.int64)

    @cached_property
    def elements(self) -> Ints:
        """Elements of each tensor, shape (n,)."""
        return np.array([tensor.numel for tensor in self.tensors], dtype=np.int64)

    @cached_property
    def sizes(self) -> Ints:
        """Bytes of each tensor, shape (n,)."""
        items = np.array([ITEM_SIZES[tensor.dtype] for tensor in self.tensors], dtype=np.int64)
        return self.elements * items

    @cached_property
    def row_sizes(self) -> Ints:
        """Bytes per row of each tensor, 0 if it has no rows; shape (n,)."""
        return self.sizes // np.maximum(self.lengths, 1)

    def held(self, spec: StrategySpec, rank: int) -> HeldRows | None:
        """Return what `rank` holds; None for ZeRO, which splits tensors without regard to rows.

        Rows are split as `torch.chunk` splits dim 0: ceil(rows ÷ ranks) per rank until none are left.
        """
        if spec.kind.startswith("zero"):
            return None
        ranks = spec.shard if spec.kind in FULLY_SHARDED else 1
        chunk = -(-self.lengths // ranks)
        first = np.minimum(chunk * (rank % ranks), self.lengths)
        rows = np.minimum(chunk, self.lengths - first)
        return HeldRows(first, rows, rows * self.row_sizes)


def tensors_of(profile: ModelProfile, spec: StrategySpec, rank: int) -> tuple[TensorRows, ...]:
    """Return what `rank` holds of every parameter; empty for ZeRO, see `TensorTable.held`."""
    held = TensorTable(profile.parameters).held(spec, rank)
    if held is None:
        return ()
    parts = zip(
        profile.parameters, held.first_row.tolist(), held.rows.tolist(), held.sizes.tolist(), strict=True
    )
    return tuple(TensorRows(tensor.name, tensor.shape, tensor.dtype, *part) for tensor, *part in parts)


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
