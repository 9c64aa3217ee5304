"""Optimizers by name."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from torchdeck.distributed.recipe import RecipeError
from torchdeck.distributed.settings import TrainingSettings

LR_RATIO = "lr_ratio"
"""Option of a parameter group: ratio of its learning rate to the optimizer's own."""


def make_optimizer(model: nn.Module, settings: TrainingSettings) -> Optimizer:
    """Create the optimizer of `settings` over the trainable parameters of `model`.

    Weight decay applies to matrices, but not to biases, norms and other vectors. Create it after the model is
    wrapped: sharding replaces parameters.

    Raises:
        RecipeError: the model has no trainable parameter.
    """
    groups = _groups(model, settings.weight_decay)
    lr = settings.scaled_lr
    if settings.optimizer == "sgd":
        return SGD(groups, lr=lr, momentum=settings.momentum)
    kind = AdamW if settings.optimizer == "adamw" else Adam
    # one kernel for the whole update; the default on CPU is a Python loop over parameters
    return kind(groups, lr=lr, betas=settings.betas, fused=_can_fuse(groups))


def keep_lr_ratios(optimizer: Optimizer) -> None:
    """Make `set_lr` keep the ratios of the groups' learning rates to the optimizer's own, as created.

    For AdamW([{"params": a}, {"params": b, "lr": 1e-4}], lr=1e-3), the second group always has a tenth of the
    rate. A checkpoint contains these ratios.
    """
    own = optimizer.defaults.get("lr")
    for group in optimizer.param_groups:
        if own and group["lr"] != own:
            group[LR_RATIO] = float(group["lr"] / own)


def set_lr(optimizer: Optimizer, lr: float) -> None:
    """Set the learning rate of every group of `optimizer` to `lr`, times its ratio."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get(LR_RATIO, 1.0)


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise RecipeError(
            "the model has no parameters to train: right is a module with at least one parameter that "
            "requires a gradient (requires_grad)"
        )
    matrices = [parameter for parameter in parameters if parameter.dim() >= 2]
    vectors = [parameter for parameter in parameters if parameter.dim() < 2]
    groups = [(matrices, weight_decay), (vectors, 0.0)]
    return [{"params": members, "weight_decay": decay} for members, decay in groups if members]


def _can_fuse(groups: list[dict[str, object]]) -> bool:
    parameters = [p for group in groups for p in group["params"]]  # type: ignore[attr-defined]
    return all(isinstance(p, torch.Tensor) and p.is_floating_point() for p in parameters)
