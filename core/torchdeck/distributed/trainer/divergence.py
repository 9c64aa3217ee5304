"""Periodic check that ranks which should hold the same weights do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from torchdeck.distributed.checkpoints.tensors.model_state import bare_name
from torchdeck.distributed.group.agreement import by_rank
from torchdeck.distributed.local_tensors import checksum, local_part
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.strategies.base import DistributedStrategy

_WORD = 1 << 32


class DivergenceCheck:
    """Compares replicas of the weights by checksums of their bits.

    If all agree, it costs one reduction of four numbers for each part the weights are divided into. Buffers
    are excluded: under DDP each rank has its own running statistics.

    Args:
        strategy: determines which ranks hold the same part.
        model: model whose weights are compared.
    """

    def __init__(self, strategy: DistributedStrategy, model: nn.Module) -> None:
        self._strategy = strategy
        self._model = model
        self._same_at: int | None = None

    @property
    def compares(self) -> bool:
        """Return whether any two ranks hold the same weights."""
        return self._strategy.world_size > self._strategy.weight_parts

    def run(self, step: int) -> None:
        """Check the replicas after `step` steps; every rank calls it.

        Raises:
            RecipeError: replicas differ; on every rank, naming the tensor and the rank that differs.
        """
        if not self.compares:
            return
        named = {
            bare_name(name): checksum(local_part(weight)) for name, weight in self._model.named_parameters()
        }
        if self._differs(_combined(list(named.values()))):
            raise RecipeError(self._sentence(named, step))
        self._same_at = step

    def _differs(self, mine: Sequence[float]) -> bool:
        """Return whether any part's replicas differ, from this rank's numbers."""
        strategy = self._strategy
        part, parts = strategy.rank % strategy.weight_parts, strategy.weight_parts
        numbers = [math.inf] * (4 * parts)
        numbers[4 * part : 4 * part + 4] = [*mine, *(-number for number in mine)]
        least = strategy.group.minimum(numbers)
        return any(
            (least[at], least[at + 1]) != (-least[at + 2], -least[at + 3]) for at in range(0, len(least), 4)
        )

    def _sentence(self, named: dict[str, Tensor], step: int) -> str:
        strategy, names = self._strategy, list(named)
        by_name = [_halves(int(value)) for value in torch.stack(list(named.values())).tolist()]
        table = by_rank(strategy.group, [half for halves in by_name for half in halves])
        found: list[tuple[str, int, int]] = []
        for part in range(strategy.weight_parts):
            ranks = range(part, strategy.world_size, strategy.weight_parts)
            for number, name in enumerate(names):
                values = {rank: table[rank][2 * number : 2 * number + 2] for rank in ranks}
                usual = Counter(values.values()).most_common(1)[0][0]
                one = next(rank for rank, value in values.items() if value == usual)
                found += [(name, rank, one) for rank, value in values.items() if value != usual]
        name, rank, usual_rank = min(found, key=lambda item: (item[1], names.index(item[0])))
        tensors = len({item[0] for item in found})
        more = f" and {tensors - 1} more tensors" if tensors > 1 else ""
        differ = f"rank {rank} has another {name}{more} than rank {usual_rank}"
        if self._same_at is None:
            return (
                f"weights differ across ranks before training begins, at step {step}: {differ}. Build the "
                "same model on every rank, from the same seed"
            )
        return (
            f"weights differ across ranks after step {step}: {differ}; after step {self._same_at} they were "
            "the same. Something changes weights or gradients on one rank alone: a callback, a hook or the "
            "loss function of the recipe, or a faulty machine"
        )


def _combined(checksums: Sequence[Tensor]) -> tuple[float, float]:
    """Combine all checksums into one, as numbers that float64 represents exactly."""
    stacked = torch.stack(list(checksums))
    factors = torch.arange(len(stacked), dtype=torch.int64, device=stacked.device) * 2 + 1
    return _halves(int((stacked * factors).sum()))


def _halves(value: int) -> tuple[float, float]:
    high, low = divmod(value, _WORD)
    return float(high), float(low)
