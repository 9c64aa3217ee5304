"""Peaks under DeepSpeed ZeRO from its state and the trace: a closed formula, not validated on a device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from torchdeck.plan.memory.spec import PRECISION_SIZES, StrategySpec
from torchdeck.plan.memory.timeline import Peak, Term
from torchdeck.plan.memory.traces import trace_for
from torchdeck.plan.memory.unit_sizes import unit_sizes
from torchdeck.plan.memory.zero import ZeroOptions, zero_state
from torchdeck.plan.model_profile import Event, ModelProfile, Trace

ZERO_NOTE = "peaks of ZeRO come from a closed formula and are not validated"

_FORWARD_TERMS = {
    Event.ACTIVATION: Term.ACTIVATIONS,
    Event.LOGITS: Term.LOGITS,
    Event.INPUT: Term.INPUTS,
    Event.CAST: Term.CASTS,
}


def zero_peaks(profile: ModelProfile, spec: StrategySpec) -> list[Peak]:
    """Peaks of rank 0's device: what it keeps, and what forward, backward or the update need on top.

    Backward is taken to hold all gradients that the stage keeps at the time of the most activations: under
    stage 1 those of all parameters, which only the next step clears. Stages 1 and 2 copy gradients into a
    bucket of `reduce_bucket_size` elements that lives as long as backward (stage_1_and_2.py: `setup_buckets`,
    `reduce_ipg_grads`). Under stage 3 two units are gathered at a time (`prefetch_bucket_size`: the next one
    comes while one computes).

    Raises:
        UntracedError: the profile has no trace for `spec`.
        ValueError: DeepSpeed cannot train this model.
    """
    state = zero_state(profile.parameters, spec, [0])
    device = state.device
    gradients = int(device.gradients[0])
    passing = int(state.passing_gradients[0])
    kept = {
        Term.PARAMETERS: int(device.parameters[0]),
        Term.OPTIMIZER: int(device.optimizer[0]),
        Term.BUCKETS: int(device.buffers[0]),
        Term.GRADIENTS: gradients - passing,
        Term.BUFFERS: sum(tensor.size for tensor in profile.buffers),
    }
    trace = trace_for(profile, spec)
    computing = {**_most(trace), Term.GATHERED: _gathered(profile, spec)}
    item = PRECISION_SIZES[spec.precision]
    if spec.kind == "zero1":
        gradients = max(
            gradients, item * sum(tensor.numel for tensor in profile.parameters if tensor.trainable)
        )
    bucket = 0 if spec.kind == "zero3" else item * ZeroOptions().reduce_bucket
    reducing = {Term.GRADIENTS: gradients, Term.BUCKETS: kept[Term.BUCKETS] + bucket}
    return [
        _peak("forward", kept, computing),
        _peak("backward", kept, {**computing, **reducing}),
        _peak("optimizer", kept, {Term.GRADIENTS: gradients}),
    ]


def _peak(phase: str, kept: dict[Term, int], more: dict[Term, int]) -> Peak:
    terms = {term: size for term, size in {**kept, **more}.items() if size}
    return Peak(phase, sum(terms.values()), terms)


def _most(trace: Trace) -> dict[Term, int]:
    """What is alive, gradients left out, when that is most."""
    counted = np.isin(trace.kinds, list(_FORWARD_TERMS))
    kinds, values = trace.kinds[counted], trace.values[counted]
    if not len(values):
        return {}
    where = int(np.cumsum(values).argmax())
    until = slice(0, where + 1)
    return {term: int(values[until][kinds[until] == kind].sum()) for kind, term in _FORWARD_TERMS.items()}


def _gathered(profile: ModelProfile, spec: StrategySpec) -> int:
    if spec.kind != "zero3":
        return 0
    like = replace(spec, kind="fsdp", param_precision=spec.precision)
    return sum(sorted((unit.gathered for unit in unit_sizes(profile, like)), reverse=True)[:2])
