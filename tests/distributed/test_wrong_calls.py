"""A hundred wrong calls of public functions: each error names the argument and what would be right."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import torchdeck.distributed
from torchdeck.contract.refusal import Refusal
from torchdeck.data.batch_plan import build_batch_plan, save_batch_plan
from torchdeck.distributed import DistributedTrainer

NAMES = [
    ("DistributedSampler(8, 2, 0, sed=1)", "did you mean 'seed'?"),
    ("DistributedSampler(8, 2, 0, droplast=True)", "did you mean 'drop_last'?"),
    ("DistributedBatchIterator(sampler, batchsize=2)", "did you mean 'batch_size'?"),
    ("DistributedBatchIterator(sampler, 2, colour=3)", "known are sampler, batch_size"),
    ("DistributedRangeSplitter(total_sample=8, world_size=2)", "did you mean 'total_samples'?"),
    ("SampleOrder(8, sead=1)", "did you mean 'seed'?"),
    ("AugmentationConfig(rotation=(-5.0, 5.0))", "did you mean 'rotation_range'?"),
    ("Augmentation(config, base_sed=1)", "did you mean 'base_seed'?"),
    ("CheckpointPosition(microbatch=3)", "did you mean 'microbatch_idx'?"),
    ("DistributedConfig(worldsize=2)", "did you mean 'world_size'?"),
    ("DistributedConfig.from_env({}, master_adress='a')", "did you mean 'master_addr'?"),
    ("setup_distributed(worldsize=2)", "did you mean 'world_size'?"),
    ("setup_distributed(gpus=2)", "known are config, rank, world_size"),
    ("build_batch_plan([3, 4], token_buget=8)", "did you mean 'token_budget'?"),
    ("load_batch_plan(folder, verfy=True)", "did you mean 'verify'?"),
    ("save_batch_plan(plan, folder, overwite=True)", "did you mean 'overwrite'?"),
    ("compute_shard_stats(plan, 2, balanced='none')", "did you mean 'balance'?"),
    ("plan_steps(plan, worldsize=1)", "did you mean 'world_size'?"),
    ("iter_from_checkpoint(plan, CheckpointPosition(), ranks=2)", "did you mean 'rank'?"),
    ("wrap_model_ddp(model, bucket_size=1.0)", "did you mean 'bucket_size_mb'?"),
    ("wrap_model_fsdp(model, shading='full')", "did you mean 'sharding'?"),
    ("CheckpointManager(folder, keeplast=1)", "did you mean 'keep_last'?"),
    ("auto_resume(folder, model, optimizer, runid='a')", "did you mean 'run_id'?"),
    ("find_latest_checkpoint(folder=folder)", "known are directory"),
    ("DistributedTrainer(model, loss=loss, learning=1.0)", "did you mean 'lr'?"),
    ("DistributedTrainer(model, loss=loss, clipping=1.0)", "did you mean 'clip'?"),
    ("DistributedTrainer(model, loss=loss, warmup=1)", "did you mean 'warmup_steps'?"),
    ("DistributedTrainer(model, loss=loss, checkpoints_dir=folder)", "did you mean 'checkpoint_dir'?"),
    ("trainer.fit(x, y, epoch=1)", "did you mean 'epochs'?"),
    ("trainer.fit(x, y, epochs=1, validate=0.1)", "did you mean 'validate_every'?"),
    ("trainer.evaluate(x, y, micro_batch=2)", "did you mean 'microbatch'?"),
    ("DistributedStrategy.from_config('ddp', precison='bf16')", "did you mean 'precision'?"),
    ("DistributedStrategy.from_config({'strategy': 'ddp', 'dpp': {}})", "did you mean 'ddp'?"),
    ("DistributedStrategy.from_config({'strategy': 'ddp', 'ddp': {'bucket': 1}})", "'bucket_size_mb'"),
    ("strategy.clip_grad_norm(model, max_nrom=1.0)", "did you mean 'max_norm'?"),
    ("strategy.save(folder, model, optimizer, stpe=1)", "did you mean 'step'?"),
    ("get_preset(nam='mild')", "did you mean 'name'?"),
    ("plan.iter_from(0, microbatch=3)", "did you mean 'microbatch_idx'?"),
    ("strategy.barrier(time_out=3.0)", "did you mean 'timeout'?"),
    ("strategy.prepare_dataloader(x, sed=1)", "did you mean 'seed'?"),
    ("RankAwareSeedGenerator(0, 2).generate_seed(sample=1, rank=0)", "did you mean 'sample_id'?"),
    ("DistributedRangeSplitter(8, 2).get_rank_range(ranks=1)", "did you mean 'rank'?"),
    ("redistribution_report(8, 2, new_world=3)", "did you mean 'new_world_size'?"),
]
MISSING = [
    ("DistributedTrainer(model)", "DistributedTrainer needs loss"),
    ("DistributedBatchIterator(sampler)", "batch_size is None: expected a whole number from 1"),
    ("DistributedRangeSplitter(8)", "needs world_size"),
    ("build_batch_plan([3])", "needs token_budget"),
    ("plan_steps(plan)", "needs world_size"),
    ("wrap_model_ddp()", "needs model"),
    ("auto_resume(folder, model)", "needs optimizer"),
    ("strategy.save(folder, model, optimizer)", "needs step"),
    ("CheckpointManager()", "needs directory"),
    ("get_preset()", "needs name"),
    ("DistributedStrategy.from_config()", "needs config"),
    ("wrap_model_fsdp(model, 'full')", "its arguments by position are model"),
    ("trainer.fit(x, y, 3)", "its arguments by position are x, y"),
    ("DistributedRangeSplitter(8, 2, 1)", "its arguments by position are total_samples, world_size"),
]
KINDS = [
    ("DistributedSampler('data', 2, 0)", "expected a data set with a length, or its size"),
    ("DistributedSampler(8, '2', 0)", "num_replicas is '2': expected a whole number"),
    ("DistributedSampler(8, 2, 1.5)", "rank is 1.5: expected a whole number"),
    ("DistributedBatchIterator([1, 2], 2)", "sampler is an object of type list: expected DistributedSampler"),
    ("DistributedBatchIterator(sampler, '2')", "batch_size is '2': expected a whole number"),
    ("SampleOrder('8', 0)", "size is '8': expected a whole number"),
    ("Augmentation('mild')", "config is 'mild': expected AugmentationConfig"),
    ("AugmentationConfig(rotation_range=5.0)", "rotation_range is 5.0: expected two numbers"),
    ("get_preset(3)", "there is no augmentation preset 3"),
    ("DistributedConfig(rank='0')", "rank is '0': expected a whole number"),
    ("DistributedConfig(rank=True)", "rank is True: expected a whole number"),
    ("DistributedConfig(master_addr=None)", "master_addr is None: expected a text"),
    ("DistributedConfig(timeout='60')", "timeout is '60': expected a number"),
    ("DistributedConfig(master_port=29500.0)", "master_port is 29500.0: expected a whole number"),
    ("setup_distributed('gloo')", "config is 'gloo': expected DistributedConfig or None"),
    ("setup_distributed(rank='0', world_size=1)", "rank is '0': expected a whole number"),
    ("build_batch_plan([3], token_budget='8')", "token budget must be a whole number"),
    ("build_batch_plan('ab', token_budget=8)", "lengths"),
    ("load_batch_plan(3)", "path is 3: expected a text or PathLike"),
    ("save_batch_plan([3], folder)", "plan is an object of type list: expected BatchPlan"),
    ("compute_shard_stats([3], 2)", "plan is an object of type list: expected BatchPlan"),
    ("iter_from_checkpoint(plan, 3)", "position is 3: expected CheckpointPosition"),
    ("wrap_model_ddp('model')", "model is 'model': expected Module"),
    ("wrap_model_ddp(model, static_graph='yes')", "static_graph is 'yes': expected True or False"),
    ("wrap_model_fsdp(model, precision='fp8')", "expected 'fp32' or 'bf16' or 'fp16'"),
    ("auto_resume(folder, model, 'adam')", "optimizer is 'adam': expected Optimizer"),
    ("find_latest_checkpoint(None)", "directory is None: expected a text or Path"),
    ("CheckpointManager(folder, every='10')", "every is '10': expected a whole number or None"),
    ("DistributedTrainer('model', loss=loss)", "model is 'model': expected Module"),
    ("DistributedTrainer(model, loss=3)", "loss is 3: expected a function"),
    ("DistributedTrainer(model, loss=loss, lr='1')", "lr is '1': expected a number or None"),
    ("DistributedTrainer(model, loss=loss, clip='1')", "clip is '1': expected a number or None"),
    ("DistributedTrainer(model, loss=loss, strategy=3)", 'config is 3: give a name such as "ddp"'),
    ("DistributedTrainer(model, loss=loss, callbacks=[3])", "make it a subclass of Callback"),
    ("trainer.fit('x', epochs=1)", "data is str"),
    ("trainer.fit(x, y, epochs='1')", "epochs is '1': expected a number or None"),
    ("DistributedStrategy.from_config(3)", 'config is 3: give a name such as "ddp"'),
    ("DistributedStrategy.from_config('ddp', environment={})", "expected DistributedConfig or None"),
    ("strategy.wrap_model('model')", "model is 'model': expected Module"),
    ("strategy.prepare_optimizer(model, 'adam')", "optimizer is 'adam': expected Optimizer"),
    ("strategy.backward(3.0)", "loss is 3.0: expected Tensor"),
    ("strategy.optimizer_step(model)", "optimizer is an object of type Linear: expected Optimizer"),
    ("strategy.clip_grad_norm(model, '1')", "max_norm is '1': expected a number or None"),
    ("strategy.save(folder, model, optimizer, step='1')", "step is '1': expected a whole number"),
    ("register_strategy(3)", "kind is 3: give a subclass of DistributedStrategy"),
    ("augment_image(x, None, '')", "params is None: expected AugmentationParams"),
    ("plan.iter_from('x')", "epoch is 'x': expected a whole number"),
    ("plan.microbatch('a', 1)", "epoch is 'a': expected a whole number"),
    ("plan.iter_epoch('0')", "epoch is '0': expected a whole number"),
    ("interleave_microbatches([3])", "a microbatch is 3: give those of a batch plan"),
    ("check_agreement(3, {})", "group is 3: give strategy.group"),
    ("strategy.barrier('x')", "timeout is 'x': expected a number or None"),
    ("strategy.print('a', sep=3)", "sep is 3: expected a text"),
    ("strategy.prepare_dataloader([3])", "loader is an object of type list: expected DataLoader"),
]
VALUES = [
    ("DistributedSampler(8, 2, 2)", "rank is 2: expected a whole number from 0 to 1"),
    ("DistributedSampler(0, 2, 0)", "expected a whole number from 1"),
    ("DistributedSampler(8, 2, 0, drop_last=True, exactly_once=True)", "ask for one of them"),
    ("DistributedSampler(num_replicas=2, rank=0)", "dataset is None: expected a data set with a length"),
    ("DistributedSampler(8, num_replicas=2, rank=0, world_size=2)", "two names of one argument"),
    ("trainer.fit(x, y, epochs=1, microbatch=2, batch_size=2)", "leave out batch_size"),
    ("sampler.set_epoch(-1)", "epoch is -1: expected a whole number from 0"),
    ("DistributedConfig(rank=2, world_size=2)", "RANK is 2: expected a whole number from 0 to 1"),
    ("DistributedConfig(backend='mpi')", "expected nccl for GPUs, or cpu (gloo)"),
    ("DistributedConfig(timeout=-1.0)", "expected a number of seconds above 0"),
    ("SampleOrder(0, 0)", "it needs at least one sample"),
    ("DistributedStrategy.from_config('dpp')", "expected one of"),
    ("DistributedStrategy.from_config('ddp', precision='fp8')", "expected one of fp32, bf16, fp16"),
    ("DistributedTrainer(model, loss=loss, accumulation=0)", "accumulation is 0: expected 1 or more"),
    ("DistributedTrainer(model, loss=loss, lr=-1.0)", "lr is -1.0: expected a number above 0"),
    ("DistributedTrainer(model, loss=loss, optimizer='lion')", "expected one of 'adamw', 'adam', 'sgd'"),
    ("DistributedTrainer(model, loss=loss, ema=2.0)", "ema is 2.0: expected a number above 0 and below 1"),
    ("DistributedTrainer(model, loss=loss, log_every=0)", "log_every is 0: expected 1 or more"),
    ("DistributedTrainer(model, loss=loss, metrics=['f1'])", 'use "accuracy", or give a function'),
    ("DistributedTrainer(model, loss=loss, checkpoint_every=1)", "give checkpoint_dir"),
    ("DistributedTrainer(model, loss=loss, resume='auto')", "give checkpoint_dir"),
    ("trainer.fit(x, y)", "give epochs or steps"),
    ("trainer.fit(x, y, epochs=1, steps=3)", "give epochs or steps"),
    ("trainer.fit(x, y, epochs=1, microbatch=0)", "microbatch is 0: expected 1 or more"),
    ("trainer.fit(x, y, epochs=1, validation_split=2.0)", "expected a share above 0 and below 1"),
    ("trainer.fit(x, y[:3], epochs=1)", "different lengths"),
    ("trainer.evaluate(x[:0], y[:0])", "no samples"),
    ("CheckpointManager(folder, every=0)", "every is 0: expected a number of steps from 1"),
    ("CheckpointManager(folder, keep_last=0)", "at least 1 checkpoint must be kept"),
    ("strategy.load(folder, model, optimizer)", "there is no checkpoint in"),
    ("strategy.save(folder, model, optimizer, step=-1)", "step is -1: expected a whole number from 0"),
    ("DistributedStrategy.from_config({'strategy': 'ddp', 'timeout': -1})", "config.timeout is -1"),
    ("DistributedTrainer(model, loss=loss, betas=(0.9, 'a'))", "betas[1] is 'a': expected a number"),
    ("DistributedTrainer(model, loss=loss, balance='tokens')", "give batch_plan, or leave out balance"),
    ("planned().fit(x[:2], y[:2], epochs=5)", "epochs is 5, and the batch plan has 1: build it with 5"),
    ("planned().fit(x[:2], y[:2], steps=50)", "steps is 50, and the batch plan of 1 epoch ends after step"),
    ("resumed().fit(x[:2], y[:2], steps=50)", "this run has none: give batch_plan, or start over"),
]
CALLS = [*NAMES, *MISSING, *KINDS, *VALUES]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the calls name: the public names, and one right object of each kind."""
    torch.manual_seed(0)
    library: Any = torchdeck.distributed
    with ExitStack() as stack:
        model = nn.Linear(2, 2)
        strategy = stack.enter_context(library.DistributedStrategy.from_config({"strategy": "single"}))
        yield {
            **{name: getattr(library, name) for name in library.__all__},
            "model": model,
            "loss": nn.CrossEntropyLoss(),
            "optimizer": torch.optim.SGD(model.parameters()),
            "x": torch.zeros(8, 2),
            "y": torch.zeros(8, dtype=torch.long),
            "sampler": library.DistributedSampler(8, 2, 0),
            "config": library.get_preset("mild"),
            "plan": library.build_batch_plan(np.array([3, 4]), token_budget=8),
            "folder": tmp_path_factory.mktemp("wrong") / "folder",
            "strategy": strategy,
            "trainer": library.DistributedTrainer(nn.Linear(2, 2), loss=nn.CrossEntropyLoss()),
            **with_a_plan(tmp_path_factory.mktemp("planned")),
        }


def with_a_plan(folder: Path) -> dict[str, Callable[[], DistributedTrainer]]:
    """Functions that make trainers: with a batch plan of two samples and one epoch, given as a Path; and
    without it, from a checkpoint that was made with it.
    """
    plan = folder / "plan"
    save_batch_plan(build_batch_plan(np.array([3, 4]), token_budget=8), plan)

    def planned() -> DistributedTrainer:
        return DistributedTrainer(nn.Linear(2, 2), loss=nn.CrossEntropyLoss(), batch_plan=plan)

    trainer = planned()
    trainer.fit(torch.zeros(2, 2), torch.zeros(2, dtype=torch.long), epochs=1)
    saved = trainer.save_checkpoint(folder / "checkpoints")
    return {
        "planned": planned,
        "resumed": lambda: DistributedTrainer(nn.Linear(2, 2), loss=nn.CrossEntropyLoss(), resume=saved),
    }


def test_there_are_a_hundred() -> None:
    """No call is there twice."""
    assert len({call for call, _ in CALLS}) == len(CALLS) >= 100


@pytest.mark.parametrize(("call", "right"), CALLS, ids=[call for call, _ in CALLS])
def test_a_wrong_call_says_what_is_right(names: dict[str, Any], call: str, right: str) -> None:
    """The error is one of the library's own, with what is wrong and what to do, and nothing has begun."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the kind is compared below
        eval(call, dict(names))  # noqa: S307 - rows of this file
    error = caught.value
    assert isinstance(error, Refusal), f"{type(error).__name__}: {error}"
    assert error.what
    assert error.fix or error.why or " must be " in error.what  # the last has what is right in one sentence
    assert right in str(error)
    assert " at 0x" not in str(error)
    assert "training." not in str(error), "a key of a run file, which the caller does not have"
    folder: Path = names["folder"]
    assert not folder.exists()
