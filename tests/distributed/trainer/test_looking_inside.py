"""Statistics of gradients and weights at a cadence, and a profiler's trace of some steps."""

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from support.ranks.rank_here import RankHere
from support.ranks.recipe_ranks import FinishedRanks, recipe_settings
from support.training.forked_training import ForkedRun, run_forked
from support.values.metrics import opened, values_by_step
from torchdeck.contract.layout import RunLayout
from torchdeck.distributed.seeding import seed_all
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.trainer.statistics import tensor_statistics

RECIPE = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

def build_model(options):
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))

def build_data(options, split):
    x = torch.arange(24.0).reshape(8, 3) / 24
    return TensorDataset(x, x.sum(1, keepdim=True))

def loss(model, batch):
    x, y = batch
    return nn.functional.mse_loss(model(x), y)
"""

FAILING = """
import os
from torchdeck.distributed import Callback

class Fails(Callback):
    def step(self, result):
        if result.step == 3 and os.environ["TORCHDECK_ATTEMPT"] == "1":
            1 / 0

def callbacks(settings):
    return [Fails()]
"""


def expected() -> dict[str, float]:
    """Of the first step's gradient and the weights before it, by plain torch."""
    seed_all(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
    x = torch.arange(24.0).reshape(8, 3) / 24
    functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()  # type: ignore[no-untyped-call]
    values: dict[str, float] = {}
    for name, weight in model.named_parameters():
        assert weight.grad is not None
        for kind, tensor in (("grad", weight.grad), ("weight", weight.detach())):
            values |= {
                f"{kind}_norm/{name}": float(tensor.norm()),
                f"{kind}_mean/{name}": float(tensor.mean()),
                f"{kind}_std/{name}": float(tensor.std(correction=0)),
                f"{kind}_max/{name}": float(tensor.abs().max()),
                f"{kind}_nonfinite/{name}": 0.0,
            }
    return values


@pytest.mark.processes
def test_statistics_and_traces(tmp_path: Path) -> None:
    """Under DDP, FSDP with uneven shards and HSDP the statistics are those of whole tensors, before clipping,
    on rank 0 and at their cadence; each rank leaves a trace of the steps that were asked for."""
    recipe = tmp_path / "looked_at.py"
    recipe.write_text(RECIPE)

    def run(strategy: str, world_size: int, **more: Any) -> ForkedRun:
        options: dict[str, Any] = {"steps": 4, "clip": 0.01, "microbatch": 8 // world_size, "final": False}
        small = {"wrap": "size", "min_params": 1}
        settings = recipe_settings(
            tmp_path, str(recipe), strategy=strategy, fsdp=small, hsdp={"shard": 2}, **options
        )
        settings["telemetry"] |= {"stats_every": 1, **more}
        return ForkedRun(tmp_path / f"{strategy}-{world_size}", settings, world_size)

    ddp, *others = run_forked(
        run("ddp", 2, stats_every=3, profile_steps=[2, 3]), run("ddp", 1), run("fsdp", 2), run("hsdp", 4)
    )
    wanted = expected()
    for ranks in others:
        for name, value in wanted.items():
            found = values_by_step(ranks.succeeded().layout.root, name)
            assert list(found) == [1, 2, 3, 4]
            assert found[1] == pytest.approx(value, rel=1e-5, abs=1e-8), name
    root = ddp.succeeded().layout.root
    assert list(values_by_step(root, "grad_norm/0.weight")) == [3]
    assert list(opened(root).ranks("grad_norm/0.weight")) == [0]
    norms = [value for name, value in wanted.items() if name.startswith("grad_norm/")]
    whole = values_by_step(others[0].layout.root, "grad_norm")[1]
    assert whole == pytest.approx(math.hypot(*norms), rel=1e-5)
    for rank in range(2):
        check_trace(ddp, rank)
    assert not others[0].rank(0).trace.exists()


def test_a_trace_of_what_there_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An attempt that goes on inside the window records the rest of it, and one that fails there what it
    did."""
    recipe = tmp_path / "failing.py"
    recipe.write_text(RECIPE + FAILING)
    settings = recipe_settings(tmp_path, str(recipe), strategy="single", steps=6, microbatch=8, every=2)
    settings["telemetry"] |= {"profile_steps": [2, 4]}
    here = RankHere(monkeypatch, capsys)
    code, error, _ = here.run(settings, tmp_path)
    assert code == 1
    assert "ZeroDivisionError" in error
    assert steps_in(RunLayout(tmp_path).attempt(1).rank(0).trace) == 2
    resume = str(tmp_path / "checkpoints" / "step_00000002")
    assert here.run(settings, tmp_path, attempt=2, resume=resume)[0] == 0
    assert steps_in(RunLayout(tmp_path).attempt(2).rank(0).trace) == 2


def steps_in(trace: Path) -> int:
    """How often a loss was computed."""
    with gzip.open(trace) as file:
        events = json.load(file)["traceEvents"]
    return sum(event.get("name") == "aten::mse_loss" for event in events)


def test_what_lies_elsewhere_has_no_statistics() -> None:
    """Neither a gradient that is not there nor a parameter that was emptied."""
    model = nn.Linear(2, 1)
    model.bias = nn.Parameter(torch.empty(0))
    with DistributedStrategy.from_config({"strategy": "single"}) as single:
        found = tensor_statistics(single, model, 1.0)
    assert set(found) == {f"weight_{what}/weight" for what in ("norm", "mean", "std", "max", "nonfinite")}


def check_trace(ranks: FinishedRanks, rank: int) -> None:
    """A trace that is JSON, with the losses of two steps, forward and backward."""
    with gzip.open(ranks.rank(rank).trace) as file:
        trace = json.load(file)
    names = [event["name"] for event in trace["traceEvents"] if "name" in event]
    assert names.count("aten::mse_loss") == 2
    assert names.count("autograd::engine::evaluate_function: MseLossBackward0") == 2
