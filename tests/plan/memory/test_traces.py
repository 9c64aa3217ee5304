"""Which trace a strategy is told by."""

import dataclasses

import numpy as np
import pytest

from support.values.small_profile import profile, trace
from torchdeck.contract.plan.model_profile import Trace
from torchdeck.plan.memory.context import Largest, uncertainty
from torchdeck.plan.memory.replay import UntracedError, trace_for
from torchdeck.plan.memory.spec import StrategySpec


def single(microbatch: int, **more: object) -> StrategySpec:
    return StrategySpec("single", 1, microbatch=microbatch, **more)  # type: ignore[arg-type]


def test_what_was_traced_is_taken_as_it_is() -> None:
    """The very trace."""
    both = profile(trace(4), trace(2))
    assert trace_for(both, single(4)) is both.traces[0]


@pytest.mark.parametrize("microbatch", [1, 3, 8, 100])
def test_other_microbatches_follow_from_two(microbatch: int) -> None:
    """Sums after every event are those of a real trace of that size."""
    made, real = trace_for(profile(trace(4), trace(2)), single(microbatch)), trace(microbatch)
    assert made.microbatch == microbatch
    assert made.values.cumsum().max() == real.values.cumsum().max()
    assert made.kinds.tolist() == real.kinds.tolist()


def test_order_of_frees_does_not_matter() -> None:
    """Two frees in a row that changed places between traces."""
    small = trace(2)
    large = trace(4)
    for one, turned in ((small, False), (large, True)):
        tail = [(11, 1, -3), (14, 2, -7)] if turned else [(14, 2, -7), (11, 1, -3)]
        for column, add in (("kinds", 0), ("units", 1), ("values", 2)):
            old = getattr(one, column)
            object.__setattr__(one, column, np.append(old, np.array([row[add] for row in tail], old.dtype)))
    made = trace_for(profile(large, small), single(8))
    assert made.values[made.kinds == 14].tolist() == [-7]


def test_what_was_not_traced_is_said() -> None:
    """Another precision, checkpointing, one size alone, other operations."""
    with pytest.raises(UntracedError, match="traced in fp32, not in bf16"):
        trace_for(profile(), single(1, precision="bf16"))
    with pytest.raises(
        UntracedError, match="not traced with weights as they are and activation checkpointing"
    ):
        trace_for(profile(), single(1, checkpointing=True))
    with pytest.raises(UntracedError, match="only at microbatch 1, so 2 cannot be predicted"):
        trace_for(profile(), single(2))
    shorter = trace(2)
    shorter = dataclasses.replace(
        shorter, kinds=shorter.kinds[:-3], units=shorter.units[:-3], values=shorter.values[:-3]
    )
    with pytest.raises(UntracedError, match="run different operations"):
        trace_for(profile(trace(4), shorter), single(8))


def test_memory_of_cpu_kernels_is_left_out_on_gpus() -> None:
    """Their events stand in every trace, which serves both devices."""
    rows = [(11, 0, 100), (15, 0, 70), (15, 0, -70), (11, 0, -100)]
    model = profile(Trace.of_rows(4, rows, cast=False, checkpointing=False))
    peaks = {
        device: trace_for(model, single(4, device=device)).values.cumsum().max() for device in ("cpu", "cuda")
    }
    assert peaks == {"cpu": 170, "cuda": 100}
    alone = uncertainty(single(4), (), Largest(any=100, kernel=0), 1000)
    assert uncertainty(single(4), (), Largest(any=100, kernel=70), 1000) == alone + 70
