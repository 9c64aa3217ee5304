"""The trace that a strategy requires, at any microbatch size."""

from __future__ import annotations

import numpy as np

from torchdeck.contract.plan.model_profile import ROOT, Event, ModelProfile, Trace
from torchdeck.plan.memory.spec import StrategySpec


class UntracedError(ValueError):
    """The profile does not cover these settings; the message names them."""


def trace_for(profile: ModelProfile, spec: StrategySpec) -> Trace:
    """Return the trace for `spec`, derived from two others if its microbatch was not traced.

    Every allocation of a forward and backward is affine in the number of samples (a share per sample, and a
    constant share). So two traces with the same sequence of events determine any other.

    Raises:
        UntracedError: no trace it could be derived from exists.
    """
    if profile.precision != spec.precision:
        raise UntracedError(f"the model was traced in {profile.precision}, not in {spec.precision}")
    exact = profile.trace(spec.microbatch, cast=spec.cast, checkpointing=spec.checkpointing)
    if exact is not None:
        return exact
    alike = sorted(
        (t for t in profile.traces if (t.cast, t.checkpointing) == (spec.cast, spec.checkpointing)),
        key=lambda trace: abs(trace.microbatch - spec.microbatch),
    )
    if not alike:
        raise UntracedError(f"the model was not traced with {_settings(spec)}")
    if len(alike) < 2:
        raise UntracedError(
            f"the model was traced with {_settings(spec)} at microbatch {alike[0].microbatch} alone, which "
            f"says nothing of {spec.microbatch}"
        )
    return _affine(alike[0], alike[1], spec.microbatch)


def _affine(near: Trace, far: Trace, microbatch: int) -> Trace:
    near, far = _merged(near), _merged(far)
    if not (np.array_equal(near.kinds, far.kinds) and np.array_equal(near.units, far.units)):
        raise UntracedError(
            f"microbatches of {near.microbatch} and {far.microbatch} run different operations, so what "
            f"{microbatch} needs is not known"
        )
    steps = (microbatch - near.microbatch) / (far.microbatch - near.microbatch)
    values = near.values + np.rint((far.values - near.values) * steps).astype(np.int64)
    if np.any(np.sign(values) * np.sign(near.values) < 0):
        raise UntracedError(f"what microbatch {microbatch} needs does not follow from what was traced")
    return Trace(microbatch, near.cast, near.checkpointing, near.kinds, near.units, values)


def _merged(trace: Trace) -> Trace:
    """Return the trace with consecutive frees merged into one per kind. Their order is arbitrary if a cache
    is emptied (autocast's copies of weights), and no peak depends on it.
    """
    freed = trace.values < 0
    # each allocation and marker is a run of its own; a free belongs to the run of the preceding free
    runs = np.cumsum(~(freed & np.concatenate(([False], freed[:-1]))))
    keys = runs * (max(Event) + 1) + trace.kinds
    distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    values = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(values, inverse.reshape(-1), trace.values)
    units = np.where(freed[first], ROOT, trace.units[first]).astype(np.int32)
    return Trace(trace.microbatch, trace.cast, trace.checkpointing, trace.kinds[first], units, values)


def _settings(spec: StrategySpec) -> str:
    weights = "weights cast before the forward" if spec.cast else "weights as they are"
    return f"{weights} and {'' if spec.checkpointing else 'no '}activation checkpointing"
