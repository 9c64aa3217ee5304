"""One rank of bench_trainers: trainers of one model, data and optimizer take turns in the same process.

All take the same samples one by one out of the same data set, make batches of them by default_collate,
clip alike, step the same fused AdamW, and read the loss of every step. Ours write metrics, progress and
samples of every step into a run directory, by their hooks.

`python trainers_worker.py WORKLOAD TURNS FILE` writes {trainer: [seconds a step, ...]}, one number a turn.
Each trainer has its loop in a thread of its own, and a baton goes round, in another order each time, so that
none always comes after the same one: only who has it runs, on all ranks from the same moment on.
"""

import dataclasses
import importlib.util
import json
import os
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from torchdeck.distributed import DistributedTrainer, get_world_size, setup_distributed
from torchdeck.distributed.rank_settings import CheckpointSettings, RecipeSettings, TrainingSettings
from torchdeck.distributed.recipe_loading import Recipe
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.trainer.callback import Callback
from torchdeck.distributed.trainer.hooks import make_hooks
from torchdeck.distributed.trainer.step import StepResult
from torchdeck.distributed.trainer.trainer import Trainer
from torchdeck.environment import RunContext
from torchdeck.recipes import byte_gpt

TURN = 2
"""Steps of a turn: few, so that the turns of a round see the same of what else the machine does."""
LR, CLIP, DECAY = 1e-3, 1.0, 0.01


class Pairs(Dataset[tuple[Tensor, Tensor]]):
    """Inputs and targets, a sample at a time."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


@dataclasses.dataclass(frozen=True)
class Workload:
    """What is trained."""

    build: Callable[[], nn.Module]
    microbatch: int
    data: Callable[[int], Pairs]
    """Samples → inputs and targets."""
    loss: Callable[[Tensor, Tensor], Tensor]


def next_token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def tokens(samples: int) -> Pairs:
    text = torch.randint(0, 256, (samples, 65))
    return Pairs(text[:, :-1].contiguous(), text[:, 1:].contiguous())


def images(samples: int) -> Pairs:
    return Pairs(torch.randn(samples, 64), torch.randint(0, 10, (samples,)))


def perceptron(width: int, hidden: int) -> nn.Module:
    between = [layer for _ in range(hidden) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), *between, nn.Linear(width, 10))


WORKLOADS = {
    "gpt": Workload(
        partial(byte_gpt.build_model, {"layers": 4, "heads": 4, "width": 128, "context": 64}),
        8,
        tokens,
        next_token_loss,
    ),
    "mlp": Workload(partial(perceptron, 1024, 1), 128, images, nn.functional.cross_entropy),
    "short steps": Workload(partial(perceptron, 256, 2), 64, images, nn.functional.cross_entropy),
}


class Turn:
    """A trainer's share of the time.

    Args:
        count: turns.
        wait: returns when it has the baton.
        give: hands the baton back.
    """

    def __init__(self, count: int, wait: Callable[[], object], give: Callable[[], None]) -> None:
        self.steps = count * TURN
        self.seconds: list[float] = []
        self._wait, self._give = wait, give
        self._done = 0
        self._began = 0.0

    def begin(self) -> None:
        """Wait for the baton, and for the other ranks to have it too."""
        self._wait()
        if get_world_size() > 1:
            dist.barrier()
        self._began = time.perf_counter()

    def step(self, loss: float) -> None:  # noqa: ARG002 - a trainer has to have it to say it
        """A step is done; the last one leaves the baton with its trainer, which has things to put away.

        Args:
            loss: what it began with.
        """
        self._done += 1
        if self._done % TURN:
            return
        self.seconds.append((time.perf_counter() - self._began) / TURN)
        if self._done < self.steps:
            self._give()
            self.begin()


def adamw(model: nn.Module) -> torch.optim.AdamW:
    """Fused, with weight decay for matrices alone: what a recipe gets, for all."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [one for one in parameters if one.dim() >= 2], "weight_decay": DECAY},
        {"params": [one for one in parameters if one.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=LR, fused=True)


def hand_written(work: Workload, data: Pairs, turn: Turn) -> None:
    """What a person writes who knows torch well."""
    model, loader = work.build(), _loader(work, data)
    if get_world_size() > 1:
        model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = adamw(model)
    batches = iter(loader)
    for _ in range(turn.steps):
        x, y = next(batches)
        optimizer.zero_grad(set_to_none=True)
        loss = work.loss(model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        turn.step(loss.item())


class _Tells(Callback):
    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    def step(self, result: StepResult) -> None:
        self._turn.step(result.loss)


def _in_a_run(name: str) -> RunContext:
    """What this process is a part of from now on: a run with a directory of its own."""
    folder = Path(os.environ["BENCHMARK_RUNS"]) / name
    os.environ.update(TORCHDECK_RUN_ID=name, TORCHDECK_RUN_DIR=str(folder), TORCHDECK_ATTEMPT="1")
    return RunContext.from_env()


def recipe(work: Workload, data: Pairs, turn: Turn) -> None:
    """Torchdeck, as its recipes are trained."""
    name = "ddp" if get_world_size() > 1 else "single"
    with DistributedStrategy.from_config({"strategy": name}) as strategy:
        settings = RecipeSettings(
            version=1,
            recipe="benchmark",
            model={},
            data={},
            training=TrainingSettings(
                steps=turn.steps,
                epochs=None,
                microbatch=work.microbatch,
                accumulation=1,
                optimizer="adamw",
                lr=LR,
                scaled_lr=LR,
                clip=CLIP,
                weight_decay=DECAY,
            ),
            distributed=strategy.settings,
            checkpoint=CheckpointSettings("", final=False),
        )
        given = Recipe(
            "benchmark",
            build_model=lambda _: work.build(),
            build_data=lambda _, __: data,
            loss=lambda model, batch: work.loss(model(batch[0]), batch[1]),
        )
        context = _in_a_run("recipe")
        hooks = make_hooks(context.rank_layout(strategy.rank), strategy.place, strategy.device)
        Trainer(settings, given, strategy, context, [*hooks, _Tells(turn)]).run()
        for hook in hooks:
            hook.close()


def in_memory(work: Workload, data: Pairs, turn: Turn) -> None:
    """Torchdeck, as a script uses it."""
    _in_a_run("script")
    with DistributedTrainer(
        work.build(), loss=work.loss, lr=LR, clip=CLIP, weight_decay=DECAY, callbacks=[_Tells(turn)]
    ) as trainer:
        trainer.fit(data, steps=turn.steps, microbatch=work.microbatch)


def accelerate(work: Workload, data: Pairs, turn: Turn) -> None:
    """Hugging Face Accelerate, as its documentation shows it."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = work.build()
    optimizer = adamw(model)
    loader = DataLoader(data, batch_size=work.microbatch, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    batches = iter(loader)
    for _ in range(turn.steps):
        x, y = next(batches)
        optimizer.zero_grad()
        loss = work.loss(model(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        turn.step(loss.item())


def lightning(work: Workload, data: Pairs, turn: Turn) -> None:
    """Lightning, without its logger, bar and checkpoints."""
    import lightning as library

    class Module(library.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = work.build()

        def training_step(self, batch: Any, index: int) -> Tensor:  # noqa: ARG002 - Lightning's signature
            return work.loss(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return adamw(self)

        def on_train_batch_end(self, outputs: Any, *_: Any) -> None:
            turn.step(float(outputs["loss"]))

    world_size = get_world_size()
    trainer = library.Trainer(
        accelerator="cpu",
        devices=world_size,
        strategy="ddp" if world_size > 1 else "auto",
        max_steps=turn.steps,
        gradient_clip_val=CLIP,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(), DataLoader(data, batch_size=work.microbatch, shuffle=True))


def _loader(work: Workload, data: Pairs) -> DataLoader[Any]:
    sampler: Any = DistributedSampler(data) if get_world_size() > 1 else None
    return DataLoader(data, batch_size=work.microbatch, sampler=sampler, shuffle=sampler is None)


TRAINERS = {
    "recipe": recipe,
    "DistributedTrainer": in_memory,
    "hand-written": hand_written,
    "accelerate": accelerate,
    "lightning": lightning,
}


def take_turns(work: Workload, count: int) -> dict[str, list[float]]:
    """Every trainer that is installed, `count` turns each, in threads of which one runs at a time."""
    present = {
        name: train
        for name, train in TRAINERS.items()
        if name not in ("accelerate", "lightning") or importlib.util.find_spec(name)
    }
    torch.manual_seed(0)
    data = work.data((count * TURN + 1) * work.microbatch * get_world_size())
    batons = [threading.Semaphore(0) for _ in present]
    back = threading.Semaphore(0)
    turns = [Turn(count, baton.acquire, back.release) for baton in batons]
    failed: list[BaseException] = []

    def loop(turn: Turn, train: Callable[..., None]) -> None:
        try:
            turn.begin()
            train(work, data, turn)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the main thread raises it
            failed.append(error)
        back.release()

    for turn, train in zip(turns, present.values(), strict=True):
        threading.Thread(target=loop, args=(turn, train), daemon=True).start()
    order = random.Random(0)  # noqa: S311 - nothing secret, but the same on every rank
    for _ in range(count):
        for baton in order.sample(batons, len(batons)):
            baton.release()
            back.acquire()
            if failed:
                raise failed[0]
    return {name: turn.seconds for name, turn in zip(present, turns, strict=True)}


def main() -> None:
    warnings.simplefilter("ignore")  # of Lightning, on few workers
    workload, count, file = sys.argv[1:]
    if os.environ.get("WORLD_SIZE", "1") != "1":
        setup_distributed()
    Path(file).write_text(json.dumps(take_turns(WORKLOADS[workload], int(count))))
    sys.stdout.flush()
    os._exit(0)  # what libraries leave behind takes its time, and nothing here depends on it


if __name__ == "__main__":
    main()
