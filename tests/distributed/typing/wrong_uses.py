"""Wrong uses of the library's public names: type checkers report each line that ends in `# wrong`, no other.

`test_type_checkers.py` runs them over this file; nothing in it is executed.
"""

from __future__ import annotations

from torch import Tensor, nn

import torchdeck
import torchdeck.distributed
from torchdeck.compat import augmentation, batch_plans, ddp_fsdp, strategies
from torchdeck.compat import object_api as objects
from torchdeck.data import DistributedRangeSplitter, SampleOrders  # wrong
from torchdeck.distributed import (
    Callback,
    CheckpointManager,
    DistributedBatchIterator,
    DistributedConfig,
    DistributedSampler,
    DistributedStrategy,
    DistributedTrainer,
    StepResult,
    auto_resume,
    get_rank,
    setup_distributed,
    wrap_model_fsdp,
)
from torchdeck.integrations import AugmentLayer  # wrong


class Wrong(Callback):
    """A method with another signature."""

    def step(self, result: str) -> None:  # wrong
        print(result)


class Right(Callback):
    """A field that is not there."""

    def step(self, result: StepResult) -> None:
        print(result.losses)  # wrong


def names() -> None:
    """Names that are not there."""
    print(SampleOrders, AugmentLayer)
    print(torchdeck.distributed.Trainner)  # wrong
    torchdeck.lunch("run.toml")  # wrong
    torchdeck.log("loss")  # wrong


def trainer(model: nn.Module, x: Tensor) -> None:
    """Options and arguments of the class that trains."""
    made = DistributedTrainer(model, loss=nn.MSELoss(), learning_rat=1e-3)  # wrong
    made = DistributedTrainer(model)  # wrong
    made = DistributedTrainer("model", loss=nn.MSELoss())  # wrong
    made = DistributedTrainer(model, loss=nn.MSELoss(), clip="1.0")  # wrong
    made.fit(x, x, epoch=3)  # wrong
    made.fit(x, x, epochs="3")  # wrong
    print(made.history.losses)  # wrong
    print(made.evaluate(x)["loss"].item())  # wrong


def loop(strategy: DistributedStrategy, model: nn.Module) -> None:
    """Calls of a strategy."""
    DistributedStrategy.from_config(3)  # wrong
    DistributedStrategy.from_config({"strategy": "ddp"}, precision="fp32", env=None)  # wrong
    strategy.wrap(model)  # wrong
    strategy.clip_grad_norm(model, "1.0")  # wrong
    strategy.save("checkpoints", model, model, step=1)  # wrong
    strategy.gather(object())  # wrong
    strategy.reduce("1")  # wrong
    strategy.reduce(1.0, op="avg")  # wrong
    strategy.broadcast(1, root=0)  # wrong
    strategy.barrier("name")  # wrong
    strategy.prepare_dataloader([1, 2])  # wrong
    if strategy.is_main_process():  # wrong
        pass


def functions(model: nn.Module) -> None:
    """Functions without a strategy."""
    setup_distributed("gloo")  # wrong
    setup_distributed(worldsize=2)  # wrong
    DistributedConfig(rank="0")  # wrong
    wrap_model_fsdp(model, sharding="zero")  # wrong
    CheckpointManager("checkpoints", every="100")  # wrong
    auto_resume("checkpoints", model)  # wrong
    print(get_rank().rank)  # wrong


def data() -> None:
    """Data."""
    DistributedSampler(object(), 2, 0)  # wrong
    DistributedSampler(dataset_size="10", world_size=2, rank=0)  # wrong
    DistributedBatchIterator([1, 2], batch_size=4)  # wrong
    print(DistributedRangeSplitter(100, 4).get_rank_range(0).begin)  # wrong


def by_other_names(model: nn.Module, strategy: DistributedStrategy, x: Tensor) -> None:
    """Misspelled names and wrong types of torchdeck.compat."""
    ddp_fsdp.wrap_model_ddp("model")  # wrong
    ddp_fsdp.FSDP(model, sharding="full")  # wrong
    batch_plans.load_checkpoint_position(3)  # wrong
    manager = strategies.CheckpointManager("experiment", keep=3)  # wrong
    manager.save(strategy, 3, model=model, optimizer=model)  # wrong
    augmentation.gen_distributed_augmentation_params(1, 0, "mild")  # wrong
    trainer = objects.distributed.DistributedTrainer(model, nn.CrossEntropyLoss(), objects.AdamOptimizer())
    options = objects.distributed.DistributedTrainingConfig(epoch=1)  # wrong
    trainer.fit(x, x)  # wrong
    trainer.fit(x, x, 3)  # wrong
    trainer.fit(x, x, x, options)  # wrong
