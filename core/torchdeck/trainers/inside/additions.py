"""The trainers that callbacks are known for, by the module that defines them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType

from torchdeck.environment import RunContext, rank_layout
from torchdeck.trainers.inside.report import Report

_HERE = __name__.rpartition(".")[0]
MODULES: Mapping[str, str] = {
    "transformers.trainer": "hugging_face",
    "lightning.pytorch.trainer.trainer": "lightning",
    "pytorch_lightning.trainer.trainer": "lightning",
    "accelerate.accelerator": "accelerate",
    "deepspeed.runtime.engine": "deepspeed",
    "torchtitan.trainer": "torchtitan",
    "torch.optim.optimizer": "torch_optimizer",
}
"""Module of a trainer → module here whose `add` adds callbacks to it. Imported when the trainer is."""


def report_here(environ: Mapping[str, str] = os.environ) -> Report | None:
    """Return the report of the rank that this process is, rank 0 if it has no number; None outside a run."""
    context = RunContext.from_env(environ)
    layout = rank_layout(environ) or context.rank_layout(0)
    if layout is None:
        return None
    return Report(layout, stop_file=context.stop_file, resume=context.resume)


def additions(report: Report) -> dict[str, Callable[[ModuleType], None]]:
    """Return what to do after the import of each trainer."""

    def addition(name: str) -> Callable[[ModuleType], None]:
        def add(module: ModuleType) -> None:
            report.guarded(module.__name__, "after its import", _add, name, module, report)

        return add

    return {trainer: addition(name) for trainer, name in MODULES.items()}


def _add(name: str, module: ModuleType, report: Report) -> None:
    import_module(f"{_HERE}.{name}").add(module, report)
