"""Every public function and method checks its arguments, or is listed here with the reason why not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

from torchdeck.contract.arguments import checked_call

COMPAT = ("batch_plans", "ddp_fsdp", "strategies", "augmentation", "object_api", "object_api.distributed")
PACKAGES = ["torchdeck.data", "torchdeck.distributed", *(f"torchdeck.compat.{name}" for name in COMPAT)]

MADE = "the library makes it; users read it"
HOOK = "the trainer calls it; users override it"
INSIDE = "a part of the strategy that the trainer and the library call"
RANK = "made in a recipe's rank, of settings that were checked"
PASSED = "all arguments are passed to a function that checks them"
UNCHECKED = {
    "torchdeck.compat.batch_plans.ranks.DistributedConfig.from_env": PASSED,
    "torchdeck.compat.object_api.distributed.training.DistributedTrainingHistory": MADE,
    "torchdeck.compat.strategies.strategy.DistributedStrategy.save_in": PASSED,
    "torchdeck.data.augmentation.AugmentationChunk": MADE,
    "torchdeck.data.batch_plan.columns.Microbatch": MADE,
    "torchdeck.data.batch_plan.plan.BatchPlan.__init__": MADE,
    "torchdeck.data.batch_plan.plan.BatchPlan.part": INSIDE,
    "torchdeck.data.batch_plan.plan_steps.PlannedStep.__init__": MADE,
    "torchdeck.data.batch_plan.sharding.ShardStats": MADE,
    "torchdeck.data.redistribution.Redistribution": MADE,
    "torchdeck.distributed.checkpoints.snapshot.LoadedState": MADE,
    "torchdeck.distributed.fit.training_history.History.__init__": MADE,
    "torchdeck.distributed.group.process_group.ProcessGroup": INSIDE,
    "torchdeck.distributed.rank_settings.RecipeSettings": RANK,
    "torchdeck.distributed.trainer.callback.Callback": HOOK,
    "torchdeck.distributed.trainer.step.StepResult": MADE,
    "torchdeck.distributed.trainer.trainer.Trainer": RANK,
    "torchdeck.environment.Place": "the base of DistributedConfig, which checks",
}
"""Function, method or class, with its module → why its arguments are not checked."""
METHODS_INSIDE = (
    "__init__",  # make_strategy and from_config check
    "local_gradients",
    "local_square",
    "parameters_here",
    "tensors",
    "total_square",
    "weights_changed",
    "weights_of",
    "wrote",
)
"""Methods of every strategy that are INSIDE."""
STRATEGIES = "torchdeck.distributed.strategies."
ABSTRACT = f"{STRATEGIES}base.DistributedStrategy.wrap_model"


def functions(package: str) -> Iterator[tuple[str, Callable[..., Any], int]]:
    """Yield name, function and number of bound arguments of all public calls; a class is its `__init__`."""
    module = import_module(package)
    for value in (getattr(module, name) for name in module.__all__):
        if inspect.isfunction(value):
            yield f"{value.__module__}.{value.__qualname__}", value, 0
        elif inspect.isclass(value) and not issubclass(value, BaseException):
            for base in value.__mro__:
                if base.__module__.startswith("torchdeck.") and not getattr(base, "_is_protocol", False):
                    yield from methods(base)


def methods(kind: type) -> Iterator[tuple[str, Callable[..., Any], int]]:
    for name, value in vars(kind).items():
        found = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if inspect.isfunction(found) and (name == "__init__" or not name.startswith("_")):
            yield f"{kind.__module__}.{kind.__qualname__}.{name}", found, 1


def is_checked(function: Callable[..., Any]) -> bool:
    return function.__code__.co_filename == checked_call.__file__


def is_listed(name: str) -> bool:
    owner, _, method = name.rpartition(".")
    inside = name.startswith(STRATEGIES) and method in METHODS_INSIDE
    return inside or name == ABSTRACT or name in UNCHECKED or owner in UNCHECKED


@pytest.mark.parametrize("package", PACKAGES)
def test_every_call_checks_its_arguments(package: str) -> None:
    unchecked = [
        name
        for name, function, bound in functions(package)
        if len(inspect.signature(function).parameters) > bound and not is_checked(function)
    ]
    assert [name for name in unchecked if not is_listed(name)] == []


def test_the_list_has_nothing_else() -> None:
    """No entry that is checked by now, or that is gone."""
    calls = [call for package in PACKAGES for call in functions(package)]
    found = {name for name, function, _ in calls if not is_checked(function)}
    owners = {name.rpartition(".")[0] for name in found}
    assert {name for name in UNCHECKED if name not in found | owners} == set()
