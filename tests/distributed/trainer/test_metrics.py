"""Metrics beside the loss, over real ranks."""

from pathlib import Path
from typing import Any

import pytest

from support.ranks.recipe_ranks import recipe_settings
from support.training.forked_training import ForkedRun, run_forked
from support.values.metrics import values_by_step

pytestmark = pytest.mark.processes

RECIPE = """
import os
import torch
from torch import nn
from torch.utils.data import TensorDataset

RANK = int(os.environ["RANK"])

def build_model(options):
    return nn.Linear(1, 1)

def build_data(options, split):
    values = torch.arange(5.0).reshape(5, 1)
    return TensorDataset(values if split == "train" else values + 100)

def loss(model, batch):
    (x,) = batch
    return (model(x) ** 2).mean(), len(x), {"mean_x": x.mean(), NAME: 1.0}
"""


def test_metrics_are_means_over_all_ranks(tmp_path: Path) -> None:
    """5 samples over 2 ranks of 3 and 2: the mean of x by true counts, in training and held out; and ranks
    that return other names are told so."""
    (tmp_path / "right.py").write_text(RECIPE.replace("NAME", '"one"'))
    (tmp_path / "wrong.py").write_text(RECIPE.replace("NAME", 'f"on{RANK}"'))
    options: dict[str, Any] = {"microbatch": 3, "steps": 2, "eval_every": 1, "final": False}
    runs = [
        ForkedRun(tmp_path / name, recipe_settings(tmp_path, str(tmp_path / f"{name}.py"), **options), 2)
        for name in ("right", "wrong")
    ]
    right, wrong = run_forked(*runs)
    right.succeeded()
    assert values_by_step(right.layout.root, "mean_x") == pytest.approx({1: 2.0, 2: 2.0})
    assert values_by_step(right.layout.root, "validation_mean_x") == pytest.approx(
        dict.fromkeys(range(3), 102.0)
    )
    assert values_by_step(right.layout.root, "one") == {1: 1.0, 2: 1.0}
    assert " one 1.0 lr " in right.stdout[0]
    assert wrong.codes == [1, 1]
    assert wrong.stderr[0].strip() == (
        "AgreementError: ranks have different metrics from loss(model, batch): metrics is "
        '["mean_x", "on0"] on rank 0 and ["mean_x", "on1"] on rank 1. '
        "Return the same for every microbatch"
    )
    assert wrong.stderr[0] == wrong.stderr[1]
