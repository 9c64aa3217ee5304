"""With a batch plan its own microbatches are traced, as ranks make them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fakes import packed_recipe
from fakes.packed_recipe import SAMPLES, length
from support.memory.allocator_events import allocations_of
from torchdeck.config.loader import config_from_dict
from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.data.batch_plan import BatchPlan, build_batch_plan
from torchdeck.data.planned_steps import PlannedSteps, needs_layout
from torchdeck.distributed.batches import BatchLoader
from torchdeck.distributed.rank_settings import FsdpSettings
from torchdeck.distributed.recipe_loading import Recipe, RecipeError, load_recipe
from torchdeck.launching.facts.profiling import wanted_traces
from torchdeck.tracing.faults import TracingError
from torchdeck.tracing.request import PlannedBatch, TraceRequest, WantedTrace
from torchdeck.tracing.tracer import trace_loaded

RECIPE = load_recipe(str(Path(packed_recipe.__file__)))
LENGTHS = np.array([length(sample) for sample in range(SAMPLES)])
PLANS: dict[str, dict[str, Any]] = {
    "padded": {},
    "packed": {"pack": True},
    "cut": {"max_length": 50, "too_long": "truncate"},
}


def make_plan(**settings: Any) -> BatchPlan:
    return build_batch_plan(LENGTHS, **{"token_budget": 160, "buckets": 4, "max_length": 80} | settings)


def traced(
    wanted: tuple[WantedTrace, ...], recipe: Recipe = RECIPE, clause: str = "", **model: Any
) -> ModelProfile:
    request = TraceRequest(
        1, recipe.name, model, {}, "fp32", FsdpSettings(), needs_layout=clause, traces=wanted
    )
    return trace_loaded(recipe, request, lambda _: None)


def peaks(plan: BatchPlan, **model: Any) -> list[int]:
    """Of a real forward and backward of each microbatch of the plan."""
    order = PlannedSteps(plan, world_size=1, accumulation=1)
    loader = BatchLoader(RECIPE.build_data({}, "train"), order, rank=0, seed=0, collate=RECIPE.collate)
    count = plan.microbatches(0)
    found = []
    for step in loader.steps(order.start, count):
        (one,) = step.microbatches
        batch = one.batch
        real = allocations_of(RECIPE, RECIPE.build_model(model), batch.clone, step.samples, "fp32")
        found.append(max(real.totals))
    return found


@pytest.mark.parametrize("keeps_scores", [pytest.param(False, marks=pytest.mark.soak), True])
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "padded" else pytest.mark.soak) for kind in PLANS]
)
def test_the_trace_is_of_the_one_that_really_takes_most(
    kind: str, keeps_scores: bool, tmp_path: Path
) -> None:
    """Equal to the allocator's peak over every microbatch of the plan, in rows as the plan lays them out."""
    plan = make_plan(**PLANS[kind])
    config = config_from_dict({"run": {"recipe": "byte-gpt"}, "training": {"epochs": 1}}, tmp_path)
    profile = traced(wanted_traces(config, plan), clause=needs_layout(plan), keeps_scores=keeps_scores)
    real = peaks(plan, keeps_scores=keeps_scores)
    assert len(set(real)) > 1
    assert int(np.cumsum(profile.traces[0].values).max()) == max(real)


def test_a_sample_that_the_data_does_not_have() -> None:
    """The plan is of other data."""
    with pytest.raises(RecipeError, match=f"names sample 99, and the data has {SAMPLES}: build the plan"):
        traced((WantedTrace(2, batches=(PlannedBatch((1, 99), 64),)),))


def test_a_recipe_that_does_not_see_the_layout() -> None:
    """As every rank would say it at its start."""
    plain = Recipe("plain", RECIPE.build_model, RECIPE.build_data, RECIPE.loss)
    with pytest.raises(
        TracingError, match="packs several samples into a row, which recipe plain would not see"
    ) as caught:
        traced((WantedTrace(1),), plain, clause=needs_layout(make_plan(pack=True)))
    assert caught.value.certain
