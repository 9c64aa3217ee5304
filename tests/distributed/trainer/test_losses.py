"""What may come out of a recipe's loss."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.trainer.loss_checks import MicrobatchLoss, WeightedSum, checked_loss, global_mean


def scalar(value: float = 2.0) -> torch.Tensor:
    return torch.tensor(value, requires_grad=True) * 1


def test_weight_is_samples_or_what_the_recipe_says() -> None:
    """A bare loss weighs its samples, a pair its tokens, a filler nothing."""
    assert checked_loss(scalar(), 3).weight == 3
    assert checked_loss((scalar(), 50), 3).weight == 50
    assert checked_loss((scalar(), torch.tensor(50)), 3).weight == 50
    assert checked_loss((scalar(), 50), 0).weight == 0
    assert checked_loss(scalar().reshape(1, 1), 3).loss.shape == ()


@pytest.mark.parametrize("weight", [-1, math.nan, math.inf])
def test_impossible_weights_are_refused(weight: float) -> None:
    """A number of tokens is finite and not negative."""
    with pytest.raises(RecipeError, match="return a number from 0"):
        checked_loss((scalar(), weight), 3)


def test_integers_are_not_losses() -> None:
    """A loss is of a floating-point type."""
    with pytest.raises(RecipeError, match=r"torch\.int64, not a scalar"):
        checked_loss(torch.tensor(3), 1)


def test_metrics_are_numbers_and_scalars() -> None:
    """Floats, integers and tensors of one element, whatever their type; none without a third part."""
    returned = {"accuracy": torch.tensor([[0.5]]), "top5": 1, "bits": 2.5, "right": torch.tensor(3)}
    returned["numpy"] = np.float32(0.25)
    metrics = checked_loss((scalar(), 4, returned), 3).metrics
    assert {name: float(value) for name, value in metrics.items()} == {
        "accuracy": 0.5,
        "top5": 1.0,
        "bits": 2.5,
        "right": 3.0,
        "numpy": 0.25,
    }
    assert {value.dtype for value in metrics.values()} == {torch.float64}
    assert checked_loss((scalar(), 4), 3).metrics == {}


@pytest.mark.parametrize(
    ("metrics", "sentence"),
    [
        (0.5, "returned float as its metrics: return a dict"),
        ({3: 0.5}, "a metric named 3: a name is a text"),
        ({"top 5": 0.5}, "a metric named 'top 5': a name is a text"),
        ({"lr": 0.5}, 'a metric named "lr", which the trainer writes itself'),
        ({"memory_bytes": 1}, 'a metric named "memory_bytes", which the trainer writes itself'),
        ({"validation_loss": 1}, 'a metric named "validation_loss", which the trainer writes itself'),
        ({"grad_std/w": 1}, 'a metric named "grad_std/w", which the trainer writes itself'),
        ({"accuracy": "high"}, 'the metric "accuracy" that loss(model, batch) returned is str'),
        ({"accuracy": torch.ones(2)}, r"is a tensor of shape (2,) and type torch.float32"),
    ],
)
def test_what_is_no_metric_is_refused(metrics: Any, sentence: str) -> None:
    """One sentence that says what would be right."""
    with pytest.raises(RecipeError) as raised:
        checked_loss((scalar(), 4, metrics), 3)
    assert sentence in str(raised.value)


def test_mean_is_weighted() -> None:
    """(1 × 1 + 4 × 3) / 4, a filler's NaN left out."""
    losses = WeightedSum()
    for value, weight in ((1.0, 1.0), (4.0, 3.0), (math.nan, 0.0)):
        losses.add(MicrobatchLoss(scalar(value), weight))
    assert global_mean(losses.total(), losses.weight, what="training") == 3.25
    assert WeightedSum().total() == 0.0


def test_metrics_are_weighted_as_the_loss_is() -> None:
    """Sums in the order that a step's reduction has; other names in a later microbatch are refused."""
    losses = WeightedSum()
    for accuracy, weight in ((1.0, 1), (0.5, 3)):
        losses.add(checked_loss((scalar(), weight, {"b": 0.0, "accuracy": accuracy}), 1))
    assert losses.names == ("accuracy", "b")
    assert losses.with_numbers(7.0, device=torch.device("cpu")) == [8.0, 2.5, 0.0, 4.0, 7.0]
    with pytest.raises(RecipeError, match="the metrics none for one microbatch and accuracy, b for another"):
        losses.add(checked_loss(scalar(), 1))


def test_metrics_stay_what_all_ranks_know_of() -> None:
    """In a later step a rank with other names finds out by itself, before a reduction of another length."""
    losses = WeightedSum(("accuracy",))
    losses.add(checked_loss((scalar(), 1, {"accuracy": 1.0}), 1))
    with pytest.raises(RecipeError, match="the metrics b for one microbatch and accuracy for another"):
        WeightedSum(("accuracy",)).add(checked_loss((scalar(), 1, {"b": 1.0}), 1))
