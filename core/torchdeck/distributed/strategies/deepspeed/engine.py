"""DeepSpeed's engine, made to do the partitioning alone: the trainer accumulates, scales, clips, says when.

Read in DeepSpeed 0.19.8: `runtime/engine.py`, `runtime/zero/stage_1_and_2.py`, `runtime/zero/stage3.py`.
Without a GPU it computes on the CPU over gloo. Nothing of it is imported before an engine is asked for.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from torchdeck.distributed.precision import Precision
from torchdeck.distributed.settings import DeepSpeedSettings, DistributedSettings
from torchdeck.recipes.errors import RecipeError

_MIB = 1 << 20


def check_installed() -> None:
    """Raises RecipeError with what to install unless this Python has DeepSpeed."""
    if importlib.util.find_spec("deepspeed") is None:
        raise RecipeError(
            f'distributed.strategy is "deepspeed", and there is no DeepSpeed in {sys.executable}: '
            "`pip install 'torchdeck[deepspeed]'` there, or use \"fsdp\", which shards as ZeRO 3 does"
        )


def bucket_elements(settings: DeepSpeedSettings, precision: Precision) -> int:
    """Elements of a bucket of `bucket_size_mb`; gradients are of the run's precision."""
    return max(1, int(settings.bucket_size_mb * _MIB) // precision.dtype.itemsize)


def engine_config(settings: DeepSpeedSettings, precision: Precision, device: torch.device) -> dict[str, Any]:
    """DeepSpeed's configuration; what it does not name has DeepSpeed's default."""
    offload = {"device": "cpu", "pin_memory": device.type == "cuda"}
    zero: dict[str, Any] = {
        "stage": settings.zero_stage,
        "reduce_bucket_size": bucket_elements(settings, precision),
    }
    if settings.offload_optimizer:
        zero["offload_optimizer"] = offload
    if settings.offload_parameters:
        zero["offload_param"] = offload
    return {
        # the trainer says which backward is a step's last, and weighs every loss itself
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 0.0,
        # the optimizer is torch's, where it steps on the CPU too: DeepSpeed's own is compiled at first use
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": zero,
        "bf16": {"enabled": precision.name == "bf16"},
    }


def make_engine(
    settings: DistributedSettings,
    precision: Precision,
    device: torch.device,
    model: nn.Module,
    optimizer: Optimizer,
) -> Any:
    """A `DeepSpeedEngine` around `model`, whose parameters are partitioned or cast in place, and `optimizer`.

    The ranks must have joined each other: DeepSpeed uses their process group and looks for none.
    """
    # a name of torch's own that DeepSpeed has yet to replace; said in every rank at every first gather
    warnings.filterwarnings("ignore", message=".*all_gather_into_tensor.*", category=FutureWarning)
    with _in_its_environment(device), contextlib.redirect_stdout(sys.stderr):
        # what it says goes to stderr: its logger keeps the stream it finds when it is imported
        deepspeed = importlib.import_module("deepspeed")
        if device.type == "cpu":
            # would be compiled for shared memory; gloo does without
            deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        deepspeed.init_distributed(
            dist_backend=settings.backend,
            auto_mpi_discovery=False,
            verbose=False,
            timeout=timedelta(seconds=settings.timeout),
            dist_init_required=False,
        )
        engine, *_ = deepspeed.initialize(
            model=model,
            optimizer=optimizer,
            config=engine_config(settings.deepspeed, precision, device),
            dist_init_required=False,
        )
    return engine


@contextlib.contextmanager
def _in_its_environment(device: torch.device) -> Iterator[None]:
    """Variables by which DeepSpeed finds the device it is to use, instead of guessing."""
    wanted = {"DS_ACCELERATOR": device.type, "LOCAL_RANK": str(device.index or 0)}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
