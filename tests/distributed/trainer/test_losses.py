"""What may come out of a recipe's loss."""

import math

import pytest
import torch

from torchdeck.distributed.trainer.losses import WeightedSum, checked_loss, global_mean
from torchdeck.recipes.errors import RecipeError


def scalar(value: float = 2.0) -> torch.Tensor:
    return torch.tensor(value, requires_grad=True) * 1


def test_weight_is_samples_or_what_the_recipe_says() -> None:
    """A bare loss weighs its samples, a pair its tokens, a filler nothing."""
    assert checked_loss(scalar(), 3)[1] == 3
    assert checked_loss((scalar(), 50), 3)[1] == 50
    assert checked_loss((scalar(), torch.tensor(50)), 3)[1] == 50
    assert checked_loss((scalar(), 50), 0)[1] == 0
    assert checked_loss(scalar().reshape(1, 1), 3)[0].shape == ()


@pytest.mark.parametrize("weight", [-1, math.nan, math.inf])
def test_impossible_weights_are_refused(weight: float) -> None:
    """A number of tokens is finite and not negative."""
    with pytest.raises(RecipeError, match="return a number from 0"):
        checked_loss((scalar(), weight), 3)


def test_integers_are_not_losses() -> None:
    """A loss is of a floating-point type."""
    with pytest.raises(RecipeError, match=r"torch\.int64, not a scalar"):
        checked_loss(torch.tensor(3), 1)


def test_mean_is_weighted() -> None:
    """(1 × 1 + 4 × 3) / 4, a filler's NaN left out."""
    losses = WeightedSum()
    for value, weight in ((1.0, 1.0), (4.0, 3.0), (math.nan, 0.0)):
        losses.add(scalar(value), weight)
    assert global_mean(losses.total(), losses.weight, what="training") == 3.25
    assert WeightedSum().total() == 0.0
