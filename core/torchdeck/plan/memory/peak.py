"""The peak of each phase of a rank, and of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.plan.memory.context import context_bytes, overhead, uncertainty
from torchdeck.plan.memory.remembered import remembered
from torchdeck.plan.memory.simulate import simulate
from torchdeck.plan.memory.spec import FULLY_SHARDED, ZERO, StrategySpec
from torchdeck.plan.memory.state import sharded_state
from torchdeck.plan.memory.timeline import Peak, Term
from torchdeck.plan.memory.traces import UntracedError, trace_for
from torchdeck.plan.memory.unit_sizes import unit_sizes
from torchdeck.plan.memory.zero.peak import zero_peaks
from torchdeck.plan.memory.zero.state import ZeroOptions

_COMING_AND_GOING = "with offload_parameters DeepSpeed decides which weights are on the device at a time"


@dataclass(frozen=True)
class PredictedPeak:
    """What the ranks that keep the most need, in bytes."""

    peaks: tuple[Peak, ...]
    """Of each phase, in order."""
    uncertainty: int
    """That much more may be allocated at the peak."""
    overhead: int
    """A process may take that much more than is allocated."""

    @property
    def margin(self) -> int:
        """The device may be needed for that much more."""
        return self.uncertainty + self.overhead

    @property
    def highest(self) -> Peak:
        """The phase that decides."""
        return max(self.peaks, key=lambda peak: peak.total)

    def less_optimizer(self, spared: int) -> Peak:
        """The highest peak of a rank that keeps `spared` bytes less of optimizer state, which only setup is
        without."""
        return max((_spare(peak, spared) for peak in self.peaks), key=lambda peak: peak.total)


def predict_peak(profile: ModelProfile, spec: StrategySpec, zero: ZeroOptions | None = None) -> PredictedPeak:
    """Peaks of the first rank of a shard group, or of the fullest one under ZeRO, which no other exceeds.

    Args:
        profile: of the model.
        spec: how it is trained.
        zero: DeepSpeed's options; None: those of a run.

    Raises:
        UntracedError: the profile has no trace for `spec`, or offloaded weights are not predicted.
        ValueError: ZeRO cannot train this model.
    """
    return remembered(profile, ("peak", spec, zero), lambda: _peak(profile, spec, zero))


def _peak(profile: ModelProfile, spec: StrategySpec, zero: ZeroOptions | None) -> PredictedPeak:
    if spec.kind in ZERO:
        if spec.offload_parameters:
            raise UntracedError(_COMING_AND_GOING)
        peaks = zero_peaks(profile, spec, zero or ZeroOptions.of(spec))
    else:
        optimizer = int(sharded_state(profile, spec, [0]).optimizer[0])
        peaks = simulate(profile, spec, optimizer).peaks()
    context = context_bytes(spec)
    peaks = [_with(peak, Term.CONTEXT, context) for peak in peaks]
    sizes = unit_sizes(profile, spec) if spec.kind in FULLY_SHARDED else ()
    largest = int(trace_for(profile, spec).values.max(initial=0))
    tensors = max(peak.total for peak in peaks) - context
    return PredictedPeak(tuple(peaks), uncertainty(spec, sizes, largest, tensors), overhead(spec, tensors))


def _with(peak: Peak, term: Term, size: int) -> Peak:
    terms = {**peak.terms, term: size} if size else peak.terms
    return Peak(peak.phase, peak.total + size, terms)


def _spare(peak: Peak, spared: int) -> Peak:
    kept = peak.terms.get(Term.OPTIMIZER, 0)
    if not spared or not kept:
        return peak
    terms: Mapping[Term, int] = {**peak.terms, Term.OPTIMIZER: kept - spared}
    return Peak(peak.phase, peak.total - spared, terms)
