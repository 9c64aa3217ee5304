"""Right uses of the library's public names: type checkers find nothing wrong here.

`test_type_checkers.py` runs them over this file; nothing in it is executed.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import torchdeck
from torchdeck.compat import augmentation, batch_plans, ddp_fsdp, strategies
from torchdeck.compat import object_api as objects
from torchdeck.data import BatchPlan, DistributedRangeSplitter, RankRange, build_batch_plan, load_batch_plan
from torchdeck.distributed import (
    Callback,
    CheckpointManager,
    DdpStrategy,
    DistributedBatchIterator,
    DistributedConfig,
    DistributedSampler,
    DistributedStrategy,
    DistributedTrainer,
    History,
    LoadedState,
    StepResult,
    auto_resume,
    cleanup_distributed,
    find_latest_checkpoint,
    get_rank,
    register_strategy,
    setup_distributed,
    wrap_model_ddp,
    wrap_model_fsdp,
)
from torchdeck.distributed.checkpoint import CheckpointPosition, load_checkpoint_position
from torchdeck.distributed.sharding import interleave_microbatches


class Printed(Callback):
    """A callback of a user's own."""

    def step(self, result: StepResult) -> None:
        print(result.step, result.loss)


@register_strategy
class Renamed(DdpStrategy):
    """A strategy of a user's own."""

    name = "renamed"


def trainer(model: nn.Module, x: Tensor, y: Tensor) -> History:
    """The class that trains."""
    with DistributedTrainer(
        model, loss=nn.CrossEntropyLoss(), lr=1e-3, strategy="ddp", clip=1.0, callbacks=[Printed()]
    ) as made:
        history = made.fit(x, y, epochs=3, microbatch=16, validation_split=0.1)
        assert_type(history, History)
        assert_type(made.evaluate(x, y), dict[str, float])
        assert_type(made.save_checkpoint("checkpoints"), Path)
    return history


def loop(model: nn.Module, loader: DataLoader[tuple[Tensor, Tensor]]) -> None:
    """A loop of one's own, with a strategy."""
    with DistributedStrategy.from_config({"strategy": "fsdp"}, precision="bf16") as strategy:
        wrapped = strategy.wrap_model(model)
        optimizer = strategy.prepare_optimizer(wrapped, torch.optim.AdamW(model.parameters()))
        for x, _ in loader:
            with strategy.no_sync(wrapped):
                strategy.backward(wrapped(strategy.to_device(x)).mean())
            norm = strategy.clip_grad_norm(model, 1.0)
            assert_type(norm, "float | None")
            strategy.optimizer_step(optimizer)
        assert_type(strategy.save("checkpoints", model, optimizer, step=1), Path)
        assert_type(strategy.load("checkpoints", model, optimizer), LoadedState)
        assert_type(strategy.is_main_process, bool)


def exchange(loader: DataLoader[tuple[Tensor, Tensor]], loss: Tensor) -> None:
    """Values that ranks exchange."""
    with DistributedStrategy.from_config("ddp") as strategy:
        assert_type(strategy.gather(loss), Tensor)
        assert_type(strategy.gather(strategy.rank), list[int])
        assert_type(strategy.reduce(loss, "mean"), Tensor)
        assert_type(strategy.reduce(1.0), float)
        assert_type(strategy.broadcast(loss), Tensor)
        assert_type(strategy.broadcast("name", source=1), str)
        for x, y in strategy.prepare_dataloader(loader):
            strategy.print(x.shape, y.shape)
        strategy.barrier(timeout=10.0)


def spellings(model: nn.Module, x: Tensor) -> None:
    """Names that arguments have in other libraries."""
    made = DistributedTrainer(
        model,
        loss=nn.MSELoss(),
        learning_rate=1e-3,
        gradient_accumulation_steps=2,
        max_norm=1.0,
        num_workers=2,
    )
    made.fit(x, x, epochs=1, batch_size=8)
    made.evaluate(x, x, batch_size=8)
    made.strategy.clip_grad_norm(model, clip=1.0)
    DistributedBatchIterator(DistributedSampler(dataset_size=10, world_size=2, rank=0), microbatch=2)


def functions(model: nn.Module) -> None:
    """Functions without a strategy."""
    config = setup_distributed(backend="gloo")
    assert_type(config, DistributedConfig)
    wrap_model_ddp(model, find_unused_parameters=True)
    wrap_model_fsdp(model, sharding="hybrid", shard=2)
    with CheckpointManager("checkpoints", every=100) as checkpoints:
        checkpoints.save(1, model, torch.optim.SGD(model.parameters()), metrics={"validation_loss": 1.0})
    assert_type(auto_resume("checkpoints", model, torch.optim.SGD(model.parameters())), "LoadedState | None")
    find_latest_checkpoint("checkpoints")
    assert_type(get_rank(), int)
    cleanup_distributed()


def data(samples: TensorDataset) -> None:
    """Data, with and without torch."""
    sampler = DistributedSampler(samples, 2, 0, seed=3)
    assert_type(DistributedSampler(samples).num_samples, int)
    DataLoader(samples, sampler=sampler)
    for batch in DistributedBatchIterator(sampler, batch_size=4):
        print(batch.shape)
    ranges = DistributedRangeSplitter(100, 4)
    assert_type(ranges.get_rank_range(0), RankRange)
    plan = build_batch_plan(np.array([5, 3, 8]), token_budget=16, epochs=1, seed=0)
    assert_type(plan, BatchPlan)
    assert_type(load_batch_plan(Path("plan")), BatchPlan)
    torchdeck.log({"loss": 1.0}, step=1)


def by_other_names(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
    """Names of other libraries, in torchdeck.compat and under torchdeck.distributed."""
    assert_type(ddp_fsdp.setup_distributed(), tuple[int, int, int])
    assert_type(ddp_fsdp.wrap_model_ddp(model, 0), nn.Module)
    assert_type(interleave_microbatches(list(load_batch_plan("plan").iter_epoch(0)))[0].tokens, int)
    assert_type(batch_plans.get_rank(), int)
    assert_type(load_checkpoint_position("position.json"), CheckpointPosition)
    strategy = strategies.DistributedStrategy.from_config({"distributed": {"strategy": "ddp"}})
    wrapped = strategy.wrap_model(model)
    assert_type(wrapped, nn.Module)
    manager = strategies.CheckpointManager("experiment", keep_last=2)
    assert_type(manager.save(strategy, 3, model=wrapped, optimizer=optimizer, timeout=5.0, epoch=1), Path)
    config = augmentation.get_preset("mild")
    assert_type(augmentation.gen_distributed_augmentation_params(1, 0, config)["rotation"], float)
    trainer = objects.distributed.DistributedTrainer(
        model, objects.CrossEntropyLoss(), objects.AdamOptimizer(0.001)
    )
    options = objects.distributed.DistributedTrainingConfig(epochs=1)
    assert_type(trainer.fit(x, y, options).train_losses, list[float])
    assert_type(trainer.fit(x, y, x, y, options).val_losses, list[float])
    assert_type(trainer.evaluate(x, y), tuple[float, float])
