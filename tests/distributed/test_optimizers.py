"""Optimizers by name."""

from typing import Any

import pytest
import torch
from torch import nn

from torchdeck.distributed.optimizers import keep_lr_ratios, make_optimizer, set_lr
from torchdeck.distributed.rank_settings import TrainingSettings
from torchdeck.distributed.recipe_loading import RecipeError


def settings(name: str) -> TrainingSettings:
    return TrainingSettings(
        steps=1, epochs=None, microbatch=1, accumulation=1, optimizer=name, lr=0.1, scaled_lr=0.2,  # type: ignore[arg-type]
        weight_decay=0.3, betas=(0.5, 0.6), momentum=0.7,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind"), [("adamw", torch.optim.AdamW), ("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)]
)
def test_settings_reach_the_optimizer(name: str, kind: type[torch.optim.Optimizer]) -> None:
    """The scaled learning rate counts; matrices decay, vectors do not; frozen parameters are left out."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    model[1].weight.requires_grad_(False)
    optimizer = make_optimizer(model, settings(name))
    assert type(optimizer) is kind
    matrices, vectors = optimizer.param_groups
    assert matrices["params"] == [model[0].weight]
    assert vectors["params"] == [model[0].bias, model[1].bias]
    assert (matrices["weight_decay"], vectors["weight_decay"], matrices["lr"]) == (0.3, 0.0, 0.2)
    assert matrices.get("betas", (0.5, 0.6)) == (0.5, 0.6)
    assert matrices.get("momentum", 0.7) == 0.7
    set_lr(optimizer, 0.01)
    assert [group["lr"] for group in optimizer.param_groups] == [0.01, 0.01]


def test_nothing_to_train_is_a_mistake() -> None:
    """A model without parameters is told what would be right."""
    with pytest.raises(RecipeError, match="no parameters to train"):
        make_optimizer(nn.ReLU(), settings("sgd"))


def test_groups_keep_the_ratio_of_their_own_learning_rates() -> None:
    """As an optimizer was made, whatever the schedule; a resumed one has the ratios from its groups."""
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    groups: list[dict[str, Any]] = [
        {"params": first.parameters()},
        {"params": second.parameters(), "lr": 1e-4},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3)
    keep_lr_ratios(optimizer)
    for lr in (0.5, 0.2):
        set_lr(optimizer, lr)
        assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([lr, lr / 10])
