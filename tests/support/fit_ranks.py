"""What ranks of the tests of DistributedTrainer do, by their job's `scenario`; see support.measured_ranks."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from support.measured_ranks import Job
from torchdeck.distributed.fit.trainer import DistributedTrainer
from torchdeck.distributed.trainer.callback import Callback
from torchdeck.distributed.trainer.step import StepResult

FEATURES, CLASSES, HIDDEN = 6, 3, 16


def points(size: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Points (size, 6), each of the class whose direction is nearest, shape (size,)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, FEATURES, generator=generator)
    directions = torch.randn(FEATURES, CLASSES, generator=torch.Generator().manual_seed(99))
    return x, (x @ directions).argmax(1)


def network(seed: int = 0, dropout: float = 0.0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(FEATURES, HIDDEN), nn.Tanh(), nn.Dropout(dropout), nn.Linear(HIDDEN, CLASSES)
    )


def trainer(model: nn.Module | None = None, **options: Any) -> DistributedTrainer:
    return DistributedTrainer(
        model or network(),
        loss=nn.CrossEntropyLoss(),
        **{"metrics": ["accuracy"], "lr": 0.02, "strategy": "ddp", **options},
    )


def weights_hash(model: nn.Module) -> str:
    content = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    return hashlib.sha256(content).hexdigest()


class Pairs:
    """A map-style data set of (input, target)."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.pairs = list(zip(x, y, strict=True))

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.pairs[index]


def run(job: Job) -> Any:
    """Called in each rank."""
    return SCENARIOS[job["scenario"]](job)


def evaluated(job: Job) -> Any:
    """What `evaluate` says of as many samples as the job wants, before and after ignoring some targets."""
    with trainer(strategy=None) as one:
        x, y = points(job["size"])
        whole = one.evaluate(x, y, microbatch=4)
        y[::3] = -100
        return whole, one.evaluate(Pairs(x, y), microbatch=5)


def trained(job: Job) -> Any:
    """A whole training; ranks build different weights, and those of rank 0 count."""
    model = network(seed=int(os.environ["RANK"]))
    data = points(job["size"])
    source: tuple[Any, ...] = (Pairs(*data),) if job.get("dataset") else data
    with trainer(model, accumulation=job["accumulation"], clip=1.0, seed=3) as one:
        history = one.fit(*source, epochs=3, microbatch=job["microbatch"], validation_split=0.2)
        found = {"history": history.to_dict(), "evaluated": one.evaluate(*data)}
    return found | {"weights": weights_hash(model)}


def stopped_and_resumed(job: Job) -> Any:
    """Six steps in one go; and four, saved, then the rest in another trainer: dropout and all bit for bit."""
    folder, data = Path(job["folder"]), points(48)
    options: dict[str, Any] = {"checkpoint_dir": folder, "checkpoint_every": 2}
    whole, first, second = (network(dropout=0.2) for _ in range(3))
    with trainer(whole) as one:
        losses = [step.loss for step in one.fit(*data, steps=6, microbatch=4).steps]
        with trainer(first, **options) as two:
            two.fit(*data, steps=4, microbatch=4)
            first_evaluated = two.evaluate(*data)
        with trainer(second, resume=folder, **options) as three:
            before = three.evaluate(*data)
            history = three.fit(*data, steps=6, microbatch=4)
        with trainer(network(seed=5)) as four:
            loaded = four.load_checkpoint(folder)
            after = four.evaluate(*data)
        whole_evaluated = one.evaluate(*data)
    return {
        "hashes": [weights_hash(whole), weights_hash(second)],
        "losses": [losses[4:], [step.loss for step in history.steps]],
        "loaded": loaded.name,
        "steps": [step.step for step in history.steps],
        "evaluated": [first_evaluated, before, after, whole_evaluated],
        "saved": sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != "."),
    }


def gone_on(job: Job) -> Any:
    """Four epochs in one go, and in two calls of fit."""
    data = points(job["size"])
    whole, parted = network(dropout=0.2), network(dropout=0.2)
    with trainer(whole) as one:
        one.fit(*data, epochs=4, microbatch=4)
        with trainer(parted) as two:
            two.fit(*data, epochs=1, microbatch=4)
            history = two.fit(*data, epochs=4, microbatch=4)
    epochs = [epoch.epoch for epoch in history.epochs]
    return {"hashes": [weights_hash(whole), weights_hash(parted)], "epochs": epochs}


class StopAt(Callback):
    """Asks for the end in one step, on one rank alone."""

    def __init__(self, step: int, rank: int) -> None:
        self.at = step if int(os.environ["RANK"]) == rank else None
        self.reasons: list[str] = []

    def step(self, result: StepResult) -> None:
        if result.step == self.at:
            self.request_stop("enough")

    def ended(self, step: int, reason: str) -> None:
        self.reasons.append(f"{step}: {reason}")


def ended_early(job: Job) -> Any:
    """By patience, as targets are noise that validation data contradicts; and by a callback on rank 1."""
    x, y = points(24)
    stop = StopAt(2, rank=1)
    with trainer(lr=0.5, patience=2, callbacks=[stop]) as one:
        by_callback = one.fit(x, y, steps=50, microbatch=4)
        asked = len(by_callback.steps)
        wrong = (x, (y + 1) % CLASSES)
        history = one.fit(x, y, epochs=60, microbatch=4, validation_data=wrong)
    return {"asked": asked, "reasons": stop.reasons, "history": history.to_dict()}


def own_optimizer(job: Job) -> Any:
    """Two groups of learning rates 1 : 10 under a warm-up, in each way that an optimizer can be given."""
    made = {}
    for kind in ("object", "function"):
        model = network()
        groups = [{"params": model[0].parameters(), "lr": 0.01}, {"params": model[3].parameters(), "lr": 0.1}]
        given: Any = torch.optim.SGD(groups) if kind == "object" else partial(torch.optim.SGD, lr=0.1)
        with trainer(model, optimizer=given, lr=None, strategy=job["strategy"], warmup_steps=2) as one:
            history = one.fit(*points(32), steps=3, microbatch=4)
        rates = [group["lr"] for group in given.param_groups] if kind == "object" else []
        made[kind] = {"lr": [step.lr for step in history.steps], "rates": rates}
        made[kind]["loss"] = [step.loss for step in history.steps]
    return made


def different(job: Job) -> Any:
    """What is said where ranks do not mean the same."""
    rank = int(os.environ["RANK"])
    said = []
    with trainer(network() if rank == 0 else nn.Linear(FEATURES, CLASSES)) as one:
        said.append(_error(lambda: one.fit(*points(8), steps=1)))
    with trainer() as two:
        said.append(_error(lambda: two.evaluate(*points(8 + rank))))
        said.append(_error(lambda: two.fit(*points(8), steps=1 + rank)))
    return said


def _error(call: Any) -> str:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever it is, its words are the outcome
        return f"{type(error).__name__}: {error}"
    return ""


SCENARIOS = {
    function.__name__: function
    for function in (evaluated, trained, stopped_and_resumed, gone_on, ended_early, own_optimizer, different)
}
