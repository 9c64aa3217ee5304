"""Optimizers by name."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from torchdeck.distributed.rank_settings import TrainingSettings
from torchdeck.distributed.recipe_loading import RecipeError

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
            "the model has no parameters to train: expected a module with at least one parameter that "
            "requires a gradient (requires_grad)"
        )
    matrices = [parameter for parameter in parameters if parameter.dim() >= 2]
    vectors = [parameter for parameter in parameters if parameter.dim() < 2]
    groups = [(matrices, weight_decay), (vectors, 0.0)]
    return [{"params": members, "weight_decay": decay} for members, decay in groups if members]


def _can_fuse(groups: list[dict[str, object]]) -> bool:
    parameters = [p for group in groups for p in group["params"]]  # type: ignore[attr-defined]
    return all(isinstance(p, torch.Tensor) and p.is_floating_point() for p in parameters)


Decay = Callable[[float], float]
"""Fraction of the steps after the warm-up done → remaining fraction of the decay to the minimum."""

DECAYS: dict[str, Decay] = {
    "constant": lambda _: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * done)),
}
"""Cosine without restarts: Loshchilov & Hutter, 2017."""


def lr_factor(step: int, *, total: int, warmup: int, schedule: str, min_ratio: float) -> float:
    """Return the factor of the peak learning rate in a step.

    The warm-up rises linearly: its first step has 1 / warmup, its last 1. After it the schedule falls from 1
    to `min_ratio`, which the last step has.

    Args:
        step: steps done before this one, from 0.
        total: steps in all.
        warmup: steps of the warm-up; it may be longer than `total`.
        schedule: "constant", "linear" or "cosine".
        min_ratio: final value of linear and cosine, 0 to 1.
    """
    if step < warmup:
        return (step + 1) / warmup
    last = total - 1 - warmup
    done = min(1.0, (step - warmup) / last) if last > 0 else 0.0
    return min_ratio + (1.0 - min_ratio) * DECAYS[schedule](done)
