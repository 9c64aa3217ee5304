"""Optimizer steps of any loop on PyTorch, counted by a hook of torch: microbatches are no steps."""

from __future__ import annotations

from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from torchdeck.trainers.inside.report import Report

NAME = "PyTorch optimizers"


def add(module: ModuleType, report: Report) -> None:
    """Count the steps of every optimizer, until a known trainer reports its own.

    Args:
        module: `torch.optim.optimizer`.
        report: of this rank.
    """
    steps = OptimizerSteps(report)
    torch = module.torch  # being imported

    def stepped(optimizer: Any, *_: Any) -> None:
        # a compiled step is traced through this hook, and must stay one graph: it is not counted;
        # nor is any step of an older torch that does not say which ones are compiled
        is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)
        if is_compiling is not None and not is_compiling() and not report.trainer:
            report.guarded(NAME, "step", steps.stepped, optimizer)

    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is not None:  # since torch 2.1
        register(stepped)


class OptimizerSteps:
    """Steps of a program: those of the optimizer that stepped most.

    Attributes:
        most: its steps in this process.
    """

    def __init__(self, report: Report) -> None:
        self.most = 0
        self._report = report
        self._steps: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def stepped(self, optimizer: Any) -> None:
        """Count and report a step of one optimizer."""
        steps = self._steps.get(optimizer, 0) + 1
        self._steps[optimizer] = steps
        if steps > self.most:
            self.most = steps
            self._report.count(steps)
