"""Converts a loss of outputs and targets, such as nn.CrossEntropyLoss(), to a recipe's `loss(model,
batch)`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchdeck.contract.arguments.errors import ArgumentError

Score = Callable[[Any, Any], Any]
"""(output, target) → mean over the microbatch."""

_BY_CLASS = (nn.CrossEntropyLoss, nn.NLLLoss)
_BY_CLASS_FUNCTIONS = (functional.cross_entropy, functional.nll_loss)
_IGNORED = -100
"""Class that torch's losses ignore by default."""


def make_loss(
    loss: Callable[..., Any], metrics: Mapping[str, Score] | Iterable[str] = ()
) -> Callable[[Any, Any], Any]:
    """Return the `loss` of a recipe.

    Args:
        loss: a function whose first parameter is named `model`, which is already a recipe's loss; or a
            callable of (output, target).
        metrics: further means, name → function of (output, target); "accuracy" is built in.

    Raises:
        TypeError: `loss` or a metric is not callable.
        ValueError: the loss does not average, a metric is unknown, or metrics are given with a recipe's loss.
    """
    if not callable(loss):
        raise ArgumentError(
            f"loss is {type(loss).__name__}", fix="give a function or a module such as MSELoss()"
        )
    if not _takes_model(loss):
        return OutputLoss(loss, metrics)
    if metrics:
        raise ArgumentError(
            "metrics cannot be combined with loss(model, batch), as only that function has the outputs",
            fix="return (loss, weight, {name: mean}) from it",
        )
    return loss


class OutputLoss:
    """Loss of a model that is called with all of a batch except its last part, which is the target.

    The weight of a microbatch is what its mean is over: samples, or for classification losses the targets
    that are not ignored, each with its class's weight.
    """

    def __init__(self, loss: Callable[[Any, Any], Any], metrics: Mapping[str, Score] | Iterable[str]) -> None:
        reduction = getattr(loss, "reduction", "mean")
        if reduction != "mean":
            raise ArgumentError(
                f'the loss has reduction="{reduction}"', fix='expected "mean", weighed by how much it is over'
            )
        self._loss = loss
        self._by_class = isinstance(loss, _BY_CLASS) or _function(loss) in _BY_CLASS_FUNCTIONS
        options = loss.keywords if isinstance(loss, functools.partial) else {}
        self._ignored = int(options.get("ignore_index", getattr(loss, "ignore_index", _IGNORED)))
        weights = options.get("weight", getattr(loss, "weight", None))
        self._weights: Tensor | None = weights if self._by_class else None
        self._metrics = _scores(metrics, self._ignored)

    def __call__(self, model: Any, batch: Any) -> tuple[Tensor, float, dict[str, Any]]:
        inputs, target = _divided(batch)
        output = model(**inputs) if isinstance(inputs, Mapping) else model(*inputs)
        weight = self._weight(target)
        # a mean over nothing is NaN, and stays NaN when weighted by 0
        loss = self._loss(output, target) if weight else output.sum() * 0.0
        return loss, weight, self._scores(output, target, counts=weight > 0) if self._metrics else {}

    def _scores(self, output: Any, target: Any, *, counts: bool) -> dict[str, Any]:
        with torch.no_grad():
            return {name: score(output, target) if counts else 0.0 for name, score in self._metrics.items()}

    def _weight(self, target: Any) -> float:
        if not self._by_class or not isinstance(target, Tensor):
            return float(len(_first_tensor(target)))
        if target.is_floating_point():  # class probabilities, in dimension 1
            return float(target.numel() / target.shape[1])
        counts = target != self._ignored
        if self._weights is None:
            return float(torch.count_nonzero(counts).item())
        return float(self._weights.to(target.device)[target[counts]].sum())


def accuracy(output: Tensor, target: Tensor, *, ignored: int = _IGNORED) -> Tensor:
    """Return the share of targets that the outputs predict correctly.

    Args:
        output: class logits, shape (n, classes, …) or (…, classes), for a `target` of class numbers; or
            binary logits in the target's own shape.
        target: class numbers, shape (n, …); or 0 and 1.
        ignored: class that does not count.

    Raises:
        ValueError: the shapes do not match.
    """
    if output.shape == target.shape:
        return ((output > 0) == (target > 0.5)).double().mean()
    if output.dim() >= 2 and (output.shape[0], *output.shape[2:]) == tuple(target.shape):
        guessed = output.argmax(1)
    elif output.shape[:-1] == target.shape:
        guessed = output.argmax(-1)
    else:
        raise ArgumentError(
            f"accuracy of an output of shape {tuple(output.shape)} and a target of shape "
            f"{tuple(target.shape)}",
            fix="expected (n, classes, ...) and (n, ...), or one shape for both",
        )
    counts = target != ignored
    return (guessed == target)[counts].double().mean()


def _scores(metrics: Mapping[str, Score] | Iterable[str], ignored: int) -> dict[str, Score]:
    known = {"accuracy": functools.partial(accuracy, ignored=ignored)}
    if isinstance(metrics, str):
        metrics = [metrics]
    named = dict(metrics) if isinstance(metrics, Mapping) else {name: name for name in metrics}
    scores: dict[str, Score] = {}
    for name, score in named.items():
        if isinstance(score, str):
            if score not in known:
                raise ArgumentError(
                    f'there is no metric "{score}"', fix='use "accuracy", or give a function for it'
                )
            score = known[score]
        if not callable(score):
            raise ArgumentError(
                f"metric {name} is {type(score).__name__}", fix="give a function of (output, target)"
            )
        scores[name] = score
    return scores


def _takes_model(loss: Callable[..., Any]) -> bool:
    if isinstance(loss, nn.Module):
        return False
    try:
        names = list(inspect.signature(loss).parameters)
    except (TypeError, ValueError):  # builtins may have no signature
        return False
    return names[:1] == ["model"]


def _function(loss: Callable[..., Any]) -> Callable[..., Any]:
    return loss.func if isinstance(loss, functools.partial) else loss


def _divided(batch: Any) -> tuple[Any, Any]:
    """Return (inputs, target): a tuple or dict of inputs, and the last part of the batch."""
    if not isinstance(batch, (tuple, list)) or len(batch) < 2:
        raise ArgumentError(
            f"a batch is {type(batch).__name__}, not inputs and a target",
            fix="give fit(x, y), a data set whose "
            "samples are (input, target), or a loss(model, batch) that knows what to do with it",
        )
    *inputs, target = batch
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        return inputs[0], target
    return inputs, target


def _first_tensor(target: Any) -> Any:
    while isinstance(target, (Mapping, tuple, list)):
        target = next(iter(target.values() if isinstance(target, Mapping) else target))
    return target
