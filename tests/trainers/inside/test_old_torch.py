"""Programs on an older torch run as without Torchdeck, even if less is known of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from torchdeck.contract.layout import RunLayout
from torchdeck.trainers.inside import torch_optimizer
from torchdeck.trainers.inside.report import Report


def test_steps_of_optimizers_run_where_torch_does_not_say_which_are_compiled(tmp_path: Path) -> None:
    hooks: list[Callable[..., None]] = []
    module: Any = ModuleType("torch.optim.optimizer")
    module.register_optimizer_step_post_hook = hooks.append
    module.torch = SimpleNamespace(compiler=SimpleNamespace())
    rank = RunLayout(tmp_path).attempt(1).rank(0)
    torch_optimizer.add(module, Report(rank))
    assert hooks
    for hook in hooks:
        hook(object(), (), {})
    assert not rank.counted.exists()
