"""Ranks of the tests of DistributedTrainer, by their job's `scenario`; see support.ranks.measured_ranks."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from support.ranks.measured_ranks import Job
from torchdeck.distributed.fit.trainer import DistributedTrainer
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.trainer.callback import Callback
from torchdeck.distributed.trainer.step import StepResult

FEATURES, CLASSES, HIDDEN = 6, 3, 16
SETTLE_SECONDS = 10.0


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
    """By a callback on rank 1; then twice by patience, as targets contradict those that training has."""
    x, y = points(24)
    stop = StopAt(2, rank=1)
    data: dict[str, Any] = {"microbatch": 4, "validation_data": (x, (y + 1) % CLASSES)}
    with trainer(lr=0.5, patience=2, callbacks=[stop]) as one:
        asked = len(one.fit(x, y, steps=50, **data).steps)
        epochs = [len(one.fit(x, y, epochs=60, **data).epochs) for _ in range(2)]
    return {"asked": asked, "reasons": stop.reasons, "epochs": epochs, "history": one.history.to_dict()}


class Seen(Callback):
    """Which statistics there were."""

    def __init__(self) -> None:
        self.statistics: set[str] = set()

    def step(self, result: StepResult) -> None:
        self.statistics |= set(result.statistics)


def averaged(job: Job) -> Any:
    """A moving average: saved, loaded, evaluated and gone on with in another trainer."""
    data, folder = points(48), Path(job["folder"])
    first, second = network(), network(seed=1)
    with trainer(first, ema=0.9, strategy=job["strategy"]) as one:
        one.fit(*data, steps=3, microbatch=4)
        saved = one.save_checkpoint(folder)
        evaluated = [one.evaluate(*data)]
        with trainer(second, ema=0.9, strategy=job["strategy"]) as two:
            two.load_checkpoint(saved)
            evaluated.append(two.evaluate(*data))
            two.fit(*data, steps=5, microbatch=4)
            one.fit(*data, steps=5, microbatch=4)
            evaluated += [one.evaluate(*data), two.evaluate(*data)]
    return evaluated


def looked_into(job: Job) -> Any:
    """Statistics, comparisons of the ranks and a trace."""
    os.chdir(job["folder"])
    seen = Seen()
    options: dict[str, Any] = {"stats_every": 2, "check_every": 1, "profile_steps": (2, 3)}
    with trainer(callbacks=[seen], **options) as one:
        one.fit(*points(48), steps=4, microbatch=4)
    return sorted(seen.statistics), Path(f"trace-rank{os.environ['RANK']}.json.gz").is_file()


def saved_by_options(job: Job) -> Any:
    """What two epochs of three steps leave under each way to save."""
    data, left = points(24), {}
    for number, options in enumerate(job["options"]):
        folder = Path(job["folder"], str(number))
        with trainer(checkpoint_dir=folder, **options) as one:
            one.fit(*data, epochs=2, microbatch=4, validation_data=data)
        left[number] = sorted(path.parent.name for path in folder.glob("*/manifest.json"))
    return list(left.values())


def computed_by(job: Job) -> Any:
    """Losses of five steps under each set of options."""
    data, losses = points(48), []
    for options in job["options"]:
        with trainer(network(), **options) as one:
            losses.append([step.loss for step in one.fit(*data, steps=5, microbatch=4).steps])
    return losses


def scheduled(job: Job) -> Any:
    """Learning rates of four steps, and of a call that makes them six."""
    with trainer(lr=0.1, schedule="linear", warmup_steps=2, min_lr_ratio=0.0) as one:
        one.fit(*points(48), steps=4, microbatch=4)
        return [step.lr for step in one.fit(*points(48), steps=6, microbatch=4).steps]


def planned(job: Job) -> Any:
    """One epoch by a batch plan: how long the rows were, and which samples were used."""
    used: list[int] = []

    def collate(samples: list[int], layout: Any = None) -> Tensor:
        used.extend(samples)
        return torch.ones(len(samples), layout.max_len)

    model = nn.Linear(1, 1)
    with DistributedTrainer(
        model,
        loss=lambda model, batch: (model(batch[..., None]).mean(), float(batch.numel())),
        strategy="ddp",
        batch_plan=job["plan"],
        collate=collate,
    ) as one:
        one.fit(list(range(24)), epochs=1)
    return used


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


def left(job: Job) -> Any:
    """Threads of gloo while a hand-written loop trains, and once it left, its wrapped model still there."""
    with DistributedStrategy.from_config({"strategy": "ddp"}) as strategy:
        wrapped = strategy.wrap_model(network())
        for _ in range(3):
            strategy.backward(wrapped(points(4)[0]).sum())
        during = _gloo_threads()
    # a thread that was joined is listed a moment longer
    limit = time.monotonic() + SETTLE_SECONDS
    while (after := _gloo_threads()) and time.monotonic() < limit:
        time.sleep(0.01)
    return during, after, min(wrapped.state_dict())


def _gloo_threads() -> int:
    names = []
    for path in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # it has ended since
            names.append(path.read_text())
    return sum("gloo" in name for name in names)


SCENARIOS = {
    function.__name__: function
    for function in (
        averaged,
        computed_by,
        different,
        ended_early,
        evaluated,
        gone_on,
        left,
        looked_into,
        own_optimizer,
        planned,
        saved_by_options,
        scheduled,
        stopped_and_resumed,
        trained,
    )
}
