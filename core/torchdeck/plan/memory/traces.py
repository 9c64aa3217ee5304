"""The trace that a strategy asks for, at any microbatch."""

from __future__ import annotations

import numpy as np

from torchdeck.plan.memory.spec import StrategySpec
from torchdeck.plan.model_profile import ModelProfile, Trace


class UntracedError(ValueError):
    """The profile says nothing of these settings; the message says of which."""


def trace_for(profile: ModelProfile, spec: StrategySpec) -> Trace:
    """The trace of `spec`, from two others where its microbatch was not traced.

    Every allocation of a forward and backward is affine in the number of samples (a part for each sample, and
    one that does not depend on them), so two traces whose events follow each other alike give any other.

    Raises:
        UntracedError: nothing was traced that it could come from.
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


def _settings(spec: StrategySpec) -> str:
    weights = "weights cast before the forward" if spec.cast else "weights as they are"
    return f"{weights} and {'' if spec.checkpointing else 'no '}activation checkpointing"
