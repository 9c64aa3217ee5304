"""Real ranks with a CheckpointManager: `python -m support.ranks.manager_ranks FOLDER` prints JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

from support.ranks import checkpoint_ranks as ranks
from support.values.checkpoint_files import flip
from torchdeck.distributed import CheckpointManager, auto_resume

STEPS = 4


def _make(strategy: str, rank: ranks.Rank) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Dropout(0.3), nn.Linear(5, 6))
    model: nn.Module = net
    if strategy == "ddp":
        model = nn.parallel.DistributedDataParallel(net)
    elif strategy == "fsdp":
        fully_shard(net)
    torch.manual_seed(rank.rank)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def _train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> list[str]:
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(8, 6)).square().mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(float(loss.detach()).hex())
    return losses


def _weights(model: nn.Module) -> list[list[float]]:
    whole = (getattr(value, "full_tensor", lambda value=value: value)() for value in model.parameters())
    return [value.detach().flatten().tolist() for value in whole]


def _saved(folder: Path, strategy: str, background: bool, rank: ranks.Rank) -> list[str]:
    model, optimizer = _make(strategy, rank)
    losses = []
    with CheckpointManager(folder, every=2, keep_last=2, background=background, timeout=60) as checkpoints:
        for step in range(1, 2 * STEPS + 1):
            losses += _train(model, optimizer, 1)
            if checkpoints.should_save(step) and step <= STEPS:
                checkpoints.save(step, model, optimizer, metrics={"validation_loss": float(step)})
    return losses[STEPS:]


def _resumed(folder: Path, strategy: str, rank: ranks.Rank) -> list[Any]:
    model, optimizer = _make(strategy, rank)
    loaded = auto_resume(folder, model, optimizer, timeout=60)
    assert loaded is not None
    refused = [item.folder.name for item in loaded.refused]
    return [loaded.step, loaded.rng_restored, refused, _weights(model), _train(model, optimizer, STEPS)]


def _save_and_resume(folder: Path, strategy: str, *, background: bool) -> list[list[Any]]:
    """What two ranks that saved continued with, and what two and one that resume continue with."""
    saved = folder / strategy
    rounds = (
        ranks.run_round(folder, 2, lambda rank: _saved(saved, strategy, background, rank)),
        ranks.run_round(folder, 2, lambda rank: _resumed(saved, strategy, rank)),
        ranks.run_round(folder, 1, lambda rank: _resumed(saved, "single", rank)),
    )
    return [ranks.results(outcomes) for outcomes in rounds]


def main(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = {
        "ddp": _save_and_resume(folder, "ddp", background=False),
        "fsdp": _save_and_resume(folder, "fsdp", background=True),
    }
    saved = folder / "fsdp"
    flip(saved / "step_00000004" / "__1_0.distcp", 3)
    told["damaged"] = ranks.results(ranks.run_round(folder, 2, lambda rank: _resumed(saved, "fsdp", rank)))
    ranks.run_round(folder, 2, lambda rank: _saved(folder / f"own{rank.rank}", "fsdp", False, rank))
    flip(folder / "own1" / "step_00000004" / "__1_0.distcp", 3)
    own = ranks.run_round(folder, 2, lambda rank: _resumed(folder / f"own{rank.rank}", "fsdp", rank))
    told["own disks"] = ranks.results(own)
    return told


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(main(Path(sys.argv[1]))))
