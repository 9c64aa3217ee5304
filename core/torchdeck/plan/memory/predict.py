"""Memory of all ranks, grouped by equal requirements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.contract.plan.prediction import PredictedMemory, RankRanges
from torchdeck.plan.memory.context import CUDA_NOTE
from torchdeck.plan.memory.memory_timeline import Peak
from torchdeck.plan.memory.peak import predict_peak
from torchdeck.plan.memory.sharding import Bytes
from torchdeck.plan.memory.spec import ZERO, StrategySpec
from torchdeck.plan.memory.training_state import sharded_state
from torchdeck.plan.memory.zero_peak import ZERO_NOTE
from torchdeck.plan.memory.zero_state import ZeroOptions, zero_state
from torchdeck.quantities import size

_STATE = ("parameters", "gradients", "optimizer")
_UNKNOWN = -1
"""Marker for an unknown size."""


def predict_memory(
    profile: ModelProfile,
    spec: StrategySpec,
    capacities: Sequence[int | None] | None = None,
    free: Sequence[int | None] | None = None,
) -> tuple[PredictedMemory, ...]:
    """Predict how much memory every rank needs, and whether its device has it.

    Args:
        profile: profile of the model.
        spec: training settings.
        capacities: bytes of each rank's device, by rank; None if unknown.
        free: bytes of each device that are free now.

    Raises:
        UntracedError: the profile has no trace for `spec`.
        ValueError: ZeRO cannot train this model, or a list does not have one entry per rank of the world.
    """
    peak = predict_peak(profile, spec)
    state = _state(profile, spec)
    devices = [_column(sizes, spec.world_size) for sizes in (capacities, free)]
    keys = np.stack([state["optimizer"], state["gradients"], state["parameters"], *devices])
    found = []
    for first, ranks in _groups(keys):
        own = {name: int(sizes[first]) for name, sizes in state.items()}
        highest = peak.less_optimizer(int(state["optimizer"][0]) - own["optimizer"])
        found.append(_memory(ranks, highest, peak.margin, own, keys[-2:, first]))
    return tuple(found)


def memory_notes(profile: ModelProfile, spec: StrategySpec) -> tuple[str, ...]:
    """Return notes on a prediction for `spec`, one sentence each: what has not been compared with a
    measurement, and what is stored elsewhere.
    """
    cuda = (CUDA_NOTE,) if spec.device == "cuda" else ()
    zero = (ZERO_NOTE,) if cuda and spec.kind in ZERO else ()
    return (*cuda, *zero, *((_on_host(profile, spec),) if spec.state_on_host else ()))


def _on_host(profile: ModelProfile, spec: StrategySpec) -> str:
    state = sharded_state(profile, spec, [0])
    whole = int(state.parameters[0] + state.gradients[0] + state.optimizer[0])
    return (
        f"with distributed.fsdp.cpu_offload {size(whole)} of weights, gradients and optimizer state per "
        "rank are in the machine's main memory, which is not counted here"
    )


def _state(profile: ModelProfile, spec: StrategySpec) -> dict[str, Bytes]:
    """Return the state of every rank on its device by term, shape (world size,)."""
    if spec.kind in ZERO:
        share = zero_state(profile.parameters, spec, options=ZeroOptions.of(spec)).device
        return {
            "parameters": share.parameters,
            "gradients": share.gradients,
            "optimizer": share.optimizer,
        }
    shards = sharded_state(profile, spec)
    if spec.state_on_host:
        return {name: np.zeros(spec.world_size, dtype=np.int64) for name in _STATE}
    return {
        "parameters": np.tile(shards.parameters, spec.replicas),
        "gradients": np.tile(shards.gradients, spec.replicas),
        "optimizer": np.tile(shards.optimizer, spec.replicas),
    }


def _column(sizes: Sequence[int | None] | None, world_size: int) -> Bytes:
    if sizes is None:
        return np.full(world_size, _UNKNOWN, dtype=np.int64)
    if len(sizes) != world_size:
        raise ValueError(f"{len(sizes)} devices are described for {world_size} ranks; give one per rank")
    return np.array([_UNKNOWN if size is None else size for size in sizes], dtype=np.int64)


def _groups(keys: npt.NDArray[np.int64]) -> list[tuple[int, RankRanges]]:
    """Group ranks whose columns of `keys`, shape (k, ranks), are equal. Each group is its first rank and all
    its ranks as ranges.
    """
    _, inverse = np.unique(keys, axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    starts = np.flatnonzero(np.diff(inverse, prepend=-1))
    ends = np.append(starts[1:], len(inverse)) - 1
    ranges: dict[int, list[tuple[int, int]]] = {}
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        ranges.setdefault(int(inverse[start]), []).append((start, end))
    return [(group[0][0], tuple(group)) for group in ranges.values()]


def _memory(
    ranks: RankRanges, peak: Peak, margin: int, state: dict[str, int], device: Bytes
) -> PredictedMemory:
    capacity, free = (None if size == _UNKNOWN else int(size) for size in device)
    high = peak.total + margin
    largest_first = sorted(peak.terms.items(), key=lambda item: (-item[1], item[0]))
    return PredictedMemory(
        ranks=ranks,
        peak_bytes=peak.total,
        low_bytes=peak.total,
        high_bytes=high,
        phase=peak.phase,
        terms={term.label: size for term, size in largest_first},
        state=state,
        capacity_bytes=capacity,
        free_bytes=free,
        verdict=verdict(peak.total, high, capacity, free),
    )


TIGHT = 0.90
"""Share of the available memory above which the verdict is `tight`."""

FITS = "fits"
TIGHT_VERDICT = "tight"
DOES_NOT_FIT = "does not fit"
UNKNOWN = "unknown"


def verdict(peak: int, high: int, capacity: int | None, free: int | None = None) -> str:
    """Return `fits`, `tight`, `does not fit`, or `unknown` if nothing is known about the device.

    Args:
        peak: expected bytes.
        high: upper bound of the bytes needed.
        capacity: bytes of the device.
        free: bytes of it that no other process uses now.
    """
    known = [size for size in (capacity, free) if size is not None]
    if not known:
        return UNKNOWN
    limit = min(known)
    if peak > limit:
        return DOES_NOT_FIT
    return TIGHT_VERDICT if peak > TIGHT * limit or high > limit else FITS


# Comparison of strategies for one cluster.


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
    """Predict memory of the same run under each of `specs`.

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
