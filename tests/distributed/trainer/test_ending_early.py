"""Training that is complete before its last step: by early stopping, or because a callback asks for it."""

from pathlib import Path
from typing import Any

import pytest

from support.ranks.recipe_ranks import recipe_settings
from support.training.forked_training import ForkedRun, run_forked
from torchdeck.contract.checkpoints.manifest import read_manifest

pytestmark = pytest.mark.processes

RECIPE = """
import os
import torch
from torch import nn
from torch.utils.data import TensorDataset
from torchdeck.distributed import Callback

def build_model(options):
    model = nn.Linear(1, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return model

def build_data(options, split):
    values = torch.arange(8.0).reshape(8, 1) / 8
    return TensorDataset(values, -values if split == "train" else values)

def loss(model, batch):
    x, y = batch
    return ((model(x) - y) ** 2).mean()

class Asks(Callback):
    def built(self, parts):
        self.model, self.optimizer = parts.model, parts.optimizer

    def step(self, result):
        assert self.optimizer.param_groups[0]["lr"] == result.lr
        if result.step == 3 and os.environ["RANK"] == "1":
            self.request_stop("rank 1 has seen enough")

def callbacks(settings):
    return [Asks()] if settings.model.get("asks") else []
"""


def write_recipe(folder: Path) -> str:
    path = folder / "ending.py"
    path.write_text(RECIPE)
    return str(path)


def test_patience_ends_training_well_and_for_good(tmp_path: Path) -> None:
    """Validation targets are the negative of what is learned: it ends after `patience` evaluations, with a
    final checkpoint; a checkpoint in between continues counting, and the final one does not train on."""
    recipe = write_recipe(tmp_path)
    options: dict[str, Any] = {"steps": 20, "lr": 0.05, "eval_every": 1, "patience": 3, "every": 2}
    settings = recipe_settings(tmp_path, recipe, optimizer="sgd", **options)
    checkpoints = tmp_path / "checkpoints"
    whole, resumed, again = run_forked(
        ForkedRun(tmp_path, settings, 2),
        ForkedRun(tmp_path, settings, 2, attempt=2, resume=str(checkpoints / "step_00000002")),
        ForkedRun(tmp_path, settings, 2, attempt=3, resume=str(checkpoints / "final")),
    )
    heldout = whole.succeeded().heldout()
    assert list(heldout) == list(range(4)), "one before training, and three that are no better"
    assert min(heldout, key=lambda step: heldout[step]) == 0
    assert whole.stdout[0].endswith(
        f"training ends at step 3: validation_loss has not been lower than {heldout[0]:.6g}, of step 0, "
        "for 3 evaluations in a row\ntraining is complete\n"
    )
    assert read_manifest(checkpoints / "final").step == 3
    assert list(resumed.succeeded().losses()) == [3]
    assert resumed.heldout()[3] == heldout[3]
    assert "training ends at step 3" in resumed.stdout[0]
    assert again.succeeded().losses() == {}
    assert "training ends at step 3" in again.stdout[0]


def test_a_callback_on_one_rank_ends_training_on_all(tmp_path: Path) -> None:
    """Rank 1 asks after step 3: both end after step 4, evaluated and saved."""
    options: dict[str, Any] = {"steps": 20, "eval_every": 10}
    settings = recipe_settings(tmp_path, write_recipe(tmp_path), model={"asks": True}, **options)
    (ranks,) = run_forked(ForkedRun(tmp_path, settings, 2))
    assert list(ranks.succeeded().losses()) == [1, 2, 3, 4]
    assert list(ranks.heldout()) == [0, 4]
    assert "training ends at step 4: a callback on another rank asked for it" in ranks.stdout[0]
    assert read_manifest(tmp_path / "checkpoints" / "final").step == 4
