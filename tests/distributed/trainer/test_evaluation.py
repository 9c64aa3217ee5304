"""What an evaluation leaves alone."""

from pathlib import Path

import pytest

from support.ranks.rank_here import RankHere
from support.ranks.recipe_ranks import recipe_settings
from support.values.metrics import values_by_step

RECIPE = """
import random
import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

def build_model(options):
    return nn.Linear(1, 1)

def build_data(options, split):
    return TensorDataset(torch.arange(8.0).reshape(8, 1) / 8)

def loss(model, batch):
    noise = torch.randn(()) + random.random() + np.random.random()
    return ((model(batch[0]) - noise) ** 2).mean()
"""


def test_what_it_draws_does_not_change_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A loss that draws noise from all generators gives the same losses with evaluations and without."""
    recipe = tmp_path / "drawing.py"
    recipe.write_text(RECIPE)
    here, losses = RankHere(monkeypatch, capsys), []
    for name, eval_every in (("with", 1), ("without", None)):
        settings = recipe_settings(
            tmp_path, str(recipe), strategy="single", eval_every=eval_every, final=False
        )
        assert here.run(settings, tmp_path / name)[0] == 0
        losses.append(values_by_step(tmp_path / name, "loss"))
    assert losses[0] == losses[1]
    assert len(losses[0]) == 4
