"""A moving average of the weights, under every strategy and through checkpoints."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from support.ranks.recipe_ranks import recipe_settings
from support.training.forked_training import ForkedRun, run_forked
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.seeding import seed_all
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.trainer.ema import Ema

RECIPE = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

def build_model(options):
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))

def build_data(options, split):
    x = torch.arange(24.0).reshape(8, 3) / 24
    return TensorDataset(x, x.sum(1, keepdim=True) + (split != "train"))

def loss(model, batch):
    x, y = batch
    return nn.functional.mse_loss(model(x), y)

def blocks(model):
    return [model[0]]
"""
STEPS, LR, DECAY = 4, 0.1, 0.75


def expected() -> tuple[list[float], list[float]]:
    """Losses of the weights and validation losses of their average, by plain torch over whole batches."""
    seed_all(0)
    model, averaged = (nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)) for _ in range(2))
    averaged.load_state_dict(model.state_dict())
    x = torch.arange(24.0).reshape(8, 3) / 24
    y = x.sum(1, keepdim=True)
    losses: list[float] = []
    heldout: list[float] = []
    for step in range(STEPS + 1):
        heldout.append(float(functional.mse_loss(averaged(x), y + 1).detach()))
        if step == STEPS:
            return losses, heldout
        loss = functional.mse_loss(model(x), y)
        model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        losses.append(float(loss.detach()))
        with torch.no_grad():
            for weight, average in zip(model.parameters(), averaged.parameters(), strict=True):
                assert weight.grad is not None
                weight.sub_(weight.grad, alpha=LR)
                average.mul_(DECAY).add_(weight, alpha=1 - DECAY)
    raise AssertionError("unreachable")


def test_weights_come_back_after_an_evaluation_that_fails() -> None:
    """Bit for bit, whatever it raised."""
    with DistributedStrategy.from_config({"strategy": "single"}) as single:
        model = nn.Linear(2, 1)
        ema = Ema(model, single, 0.5)
        torch.nn.init.ones_(model.weight)
        ema.update()
        with suppress(ZeroDivisionError), ema.in_place_of_weights():
            inside = model.weight.tolist()
            raise ZeroDivisionError
        assert inside == ema.averages["weight"].tolist() != [[1.0, 1.0]]
        assert model.weight.tolist() == [[1.0, 1.0]]


def test_weights_that_no_rank_has_are_not_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a strategy that divides them in a way of its own, as ZeRO's stage 3 does."""
    with DistributedStrategy.from_config({"strategy": "single"}) as single:
        monkeypatch.setattr(type(single), "weight_parts", 2)
        with pytest.raises(RecipeError, match="no rank has the weights to average"):
            Ema(nn.Linear(2, 1), single, 0.5)


@pytest.mark.processes
def test_evaluations_use_the_average_and_checkpoints_keep_it(tmp_path: Path) -> None:
    """Under every strategy as in plain torch; resumed bit for bit, or under another strategy; from a
    checkpoint without one it starts from the weights, and one with it is read by a run without."""
    recipe = tmp_path / "averaged.py"
    recipe.write_text(RECIPE)

    def run(
        name: str, strategy: str, *, attempt: int = 1, resume: Path | None = None, **more: Any
    ) -> ForkedRun:
        world_size = {"single": 1, "hsdp": 4}.get(strategy, 2)
        options: dict[str, Any] = {"steps": STEPS, "lr": LR, "optimizer": "sgd", "ema": DECAY, "every": 2}
        options["weight_decay"] = 0.0
        options |= {"microbatch": 8 // world_size, "eval_every": 1, "final": False, **more}
        folder = tmp_path / name
        settings = recipe_settings(folder, str(recipe), strategy=strategy, **options)
        return ForkedRun(folder, settings, world_size, attempt, str(resume or ""))

    names = ("single", "ddp", "fsdp")
    small = {"wrap": "size", "min_params": 1}
    half = {name: tmp_path / name / "checkpoints" / "step_00000002" for name in (*names, "plain")}
    *whole, plain, resumed, moved, started, dropped = run_forked(
        run("hsdp", "hsdp", fsdp=small, hsdp={"shard": 2}),
        run("offloaded", "fsdp", fsdp=small | {"cpu_offload": True}),
        *(run(name, name) for name in names),
        run("plain", "ddp", ema=None),
        run("fsdp", "fsdp", attempt=2, resume=half["fsdp"]),
        run("ddp", "ddp", attempt=3, resume=half["fsdp"]),
        run("started", "ddp", resume=half["plain"]),
        run("dropped", "ddp", resume=half["ddp"], ema=None),
    )
    losses, heldout = expected()
    for ranks in whole:
        assert list(ranks.succeeded().losses().values()) == pytest.approx(losses, rel=1e-5)
        assert list(ranks.heldout().values()) == pytest.approx(heldout, rel=1e-5)
    fsdp = whole[-1]
    assert resumed.succeeded().heldout() == {step: fsdp.heldout()[step] for step in (3, 4)}
    assert resumed.losses() == {step: fsdp.losses()[step] for step in (3, 4)}
    assert moved.succeeded().heldout() == pytest.approx({3: heldout[3], 4: heldout[4]}, rel=1e-5)
    assert started.succeeded().heldout()[3] != pytest.approx(heldout[3], rel=1e-3)
    assert "the checkpoint has no moving average of the weights" in started.stderr[0]
    assert started.stderr[1] == ""
    assert dropped.succeeded().heldout() == {step: plain.succeeded().heldout()[step] for step in (3, 4)}
