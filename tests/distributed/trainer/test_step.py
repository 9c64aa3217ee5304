"""One optimizer step on one rank."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from torchdeck.data.order import Position
from torchdeck.distributed.batches import Microbatch, StepBatches
from torchdeck.distributed.precision import Precision
from torchdeck.distributed.rank_settings import DistributedSettings
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.strategies.base import DistributedStrategy, make_strategy
from torchdeck.distributed.trainer.step import Stepper, StepRequests, TrainingParts
from torchdeck.environment import Place

Loss = Callable[[Any, Any], tuple[Tensor, int]]


@pytest.fixture
def single() -> Iterator[DistributedStrategy]:
    strategy = make_strategy(DistributedSettings("single", "gloo"), Precision("fp32"), Place())
    strategy.setup()
    yield strategy
    strategy.close()


def stepper(strategy: DistributedStrategy, model: nn.Module, loss: Loss) -> Stepper:
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    return Stepper(TrainingParts(strategy, model, model, optimizer, loss), None)


def test_metrics_may_not_change_from_step_to_step(single: DistributedStrategy) -> None:
    """Ranks compare their names in the first step alone."""
    names = iter(("accuracy", "precision"))

    def loss(model: Any, batch: Tensor) -> Any:
        return model(batch).mean(), 1, {next(names): 1.0}

    steps = stepper(single, nn.Linear(1, 1), loss)
    options: dict[str, Any] = {"lr": 1.0, "measure": False, "requests": StepRequests(), "began": 0.0}
    assert steps.run(batches(1.0), **options).metrics == {"accuracy": 1.0}
    with pytest.raises(RecipeError, match="the metrics precision for one microbatch and accuracy for anoth"):
        steps.run(batches(1.0), **options)


def batches(*values: float) -> StepBatches:
    parts = (Microbatch(torch.tensor([[value]]), np.array([index])) for index, value in enumerate(values))
    return StepBatches(len(values), Position(step=1), len(values), parts)


def test_a_gradient_that_is_not_finite_is_not_saved_at_a_stop(single: DistributedStrategy) -> None:
    """The step after which a stop saves is measured, so NaN never gets into the weights of a checkpoint."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)

    def loss(model: Any, batch: Tensor) -> tuple[Tensor, int]:
        return model(batch).pow(2).sum().sqrt(), 1  # 0, with a slope of 0 × infinity

    with pytest.raises(RecipeError, match="gradient's norm in step 1"):
        stepper(single, model, loss).run(
            batches(1.0), lr=1.0, measure=False, requests=StepRequests(stop=True), began=0.0
        )
    assert not math.isnan(float(model.weight.detach()))
