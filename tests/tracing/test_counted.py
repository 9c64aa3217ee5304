"""Long traces say what they count, and a microbatch beyond memory is refused before it is read."""

from collections.abc import Callable

import pytest

from support.memory.traced_models import recipe_of
from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.distributed.rank_settings import FsdpSettings
from torchdeck.tracing import counted
from torchdeck.tracing.faults import TracingError
from torchdeck.tracing.request import TraceRequest, WantedTrace
from torchdeck.tracing.tracer import trace_loaded

pytestmark = pytest.mark.long


def profile_of(microbatch: int, progress: Callable[[str], None]) -> ModelProfile:
    recipe, options = recipe_of("byte-gpt")
    wanted = (WantedTrace(microbatch), WantedTrace(microbatch, checkpointing=True))
    request = TraceRequest(1, "byte-gpt", options, {}, "fp32", FsdpSettings(), traces=wanted)
    return trace_loaded(recipe, request, progress)


def test_modules_samples_and_units_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted, "INTERVAL", 0.0)
    said: list[str] = []
    profile_of(4, said.append)
    assert "building the model: module 3" in said
    assert "reading samples: 2 of 4, trace 1 of 2" in said
    assert "4 samples, unit 3 of 3, trace 1 of 2" in said
    assert "4 samples, back in unit 1 of 3, trace 2 of 2" in said


def test_a_short_trace_says_what_it_does_and_counts_nothing() -> None:
    said: list[str] = []
    count = counted.Counted(said.append, "unit", 3)
    count.reached(1)
    count.reached(2)
    assert said == []


def test_a_microbatch_beyond_memory_is_refused_at_once() -> None:
    """It is not read until memory runs out."""
    with pytest.raises(TracingError, match=r"1,000,000,000 samples does not fit into memory here"):
        profile_of(1_000_000_000, lambda _: None)
