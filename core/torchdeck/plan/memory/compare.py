"""Comparison of strategies for one cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.memory.predict import memory_notes, predict_memory
from torchdeck.plan.memory.spec import StrategySpec


@dataclass(frozen=True)
class Compared:
    """Requirements of one strategy."""

    spec: StrategySpec
    memory: tuple[PredictedMemory, ...]
    """Memory of all ranks; empty if unknown."""
    problem: str = ""
    """Why it is unknown."""
    notes: tuple[str, ...] = ()
    """Parts that are not validated."""

    @property
    def worst(self) -> PredictedMemory | None:
        """Prediction of the ranks that need the largest share of their capacity."""
        return max(self.memory, key=_need, default=None)


def compare(
    profile: ModelProfile,
    specs: Sequence[StrategySpec],
    capacities: Sequence[int | None] | None = None,
    free: Sequence[int | None] | None = None,
) -> tuple[Compared, ...]:
    """Predict memory of the same run under each of `specs`, which `spec_from(config, world_size, kind=…)`
    makes.

    Args:
        profile: profile of the model.
        specs: strategies, all of the same world size.
        capacities: bytes of each rank's device, by rank; None if unknown.
        free: bytes of them that are free now.
    """
    return tuple(_compared(profile, spec, capacities, free) for spec in specs)


def _compared(
    profile: ModelProfile,
    spec: StrategySpec,
    capacities: Sequence[int | None] | None,
    free: Sequence[int | None] | None,
) -> Compared:
    if spec.kind == "single" and spec.world_size > 1:
        return Compared(spec, (), f"single is one rank, and there are {spec.world_size}")
    try:
        memory = predict_memory(profile, spec, capacities, free)
    except ValueError as error:
        return Compared(spec, (), str(error))
    return Compared(spec, memory, notes=memory_notes(profile, spec))


def _need(memory: PredictedMemory) -> float:
    known = [size for size in (memory.capacity_bytes, memory.free_bytes) if size is not None]
    return memory.peak_bytes / max(min(known), 1) if known else float(memory.peak_bytes)
