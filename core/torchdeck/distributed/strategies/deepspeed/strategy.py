"""Optimizer state, gradients and weights partitioned over the ranks by DeepSpeed: ZeRO (Rajbhandari et al.,
2020).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.distributed.checked import read_fields
from torchdeck.distributed.checkpoints.tensors.model_state import bare_name
from torchdeck.distributed.checkpoints.tensors.training_tensors import TrainingTensors
from torchdeck.distributed.fsdp_units import Blocks
from torchdeck.distributed.group.process_group import ProcessGroup
from torchdeck.distributed.precision import Precision, in_fp32
from torchdeck.distributed.rank_settings import DistributedSettings
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.strategies.base import DistributedStrategy, register_strategy
from torchdeck.distributed.strategies.deepspeed.tensors import DeepSpeedTensors, is_deepspeed, read_deepspeed
from torchdeck.distributed.strategies.deepspeed.unpartitioned import Whole
from torchdeck.distributed.strategies.replaced_parameters import check_trains
from torchdeck.distributed.strategies.same_model import begin_alike
from torchdeck.environment import Place


@dataclass(frozen=True)
class DeepSpeedSettings:
    """Options of DeepSpeed's ZeRO."""

    zero_stage: Literal[1, 2, 3] = 2
    offload_optimizer: bool = False
    offload_parameters: bool = False
    bucket_size_mb: float = 50.0


@register_strategy
class DeepSpeedStrategy(DistributedStrategy):
    """ZeRO stage 1, 2 or 3, with fp32 master weights.

    Under bf16 the engine also keeps the whole model in bf16 and casts its inputs. Autocast applies to the
    loss only. Under fp16 the engine is in fp32 and the model computes under autocast, as under other
    strategies: gradients are unscaled in fp32, not in 16 bit.
    """

    name = "deepspeed"

    _engine: Any = None
    _whole: Whole | None = None
    _tensors: DeepSpeedTensors | None = None

    def __init__(self, settings: DistributedSettings, precision: Precision, place: Place) -> None:
        super().__init__(settings, precision, place)
        given = settings.options.get(self.name, {})
        self._options = read_fields(DeepSpeedSettings, given, f"config.{self.name}")
        # in which the engine stores and sends
        self._stored = Precision("fp32" if precision.name == "fp16" else precision.name)

    @classmethod
    def wrote(cls, folder: Path) -> bool:
        return is_deepspeed(folder)

    @classmethod
    def weights_of(cls, folder: Path, *, trusted: bool) -> dict[str, Tensor]:
        return read_deepspeed(folder, trusted=trusted)

    def _join(self) -> ProcessGroup:
        check_installed()
        return super()._join()

    @arguments()
    def wrap_model(self, model: nn.Module, blocks: Blocks | None = None) -> nn.Module:  # noqa: ARG002
        begin_alike(self.group, model)
        # the engine moves it to the device at construction: partitions are cut in host memory
        self._whole = Whole.of(model)
        if self.precision.name == "fp16":
            self.precision.compute(model, self.device)
        return EngineModel(model, self._stored.dtype, self.device)

    @arguments()
    def prepare_optimizer(self, wrapped: nn.Module, optimizer: Optimizer) -> Optimizer:
        if not isinstance(wrapped, EngineModel) or self._whole is None:
            raise ArgumentError(
                "wrapped was not made by this strategy", fix="give prepare_optimizer what wrap_model returned"
            )
        model = wrapped.module
        check_trains(model, optimizer)
        self._whole.add_optimizer(model, optimizer)
        # their values before the engine rounds them
        weights = {bare_name(name): param.data for name, param in model.named_parameters()}
        self._engine = make_engine(self.settings, self._options, self._stored, self.device, model, optimizer)
        self._tensors = DeepSpeedTensors(model, self._engine, self._whole, self.rank, self.world_size)
        if self._stored.name != "fp32":
            self._tensors.set_master_weights(weights)
        wrapped.call = self._engine.__call__
        return EngineOptimizer(self._engine)

    def tensors(
        self,
        model: nn.Module,  # noqa: ARG002 - the engine's
        optimizers: Sequence[Optimizer],  # noqa: ARG002
    ) -> TrainingTensors:
        return self._prepared

    @arguments(own_checks=True)
    def accumulate(self, wrapped: nn.Module, *, last: bool) -> AbstractContextManager[object]:  # noqa: ARG002
        self._running.set_gradient_accumulation_boundary(last)
        return nullcontext()

    @arguments(own_checks=True)
    def backward(self, loss: Tensor) -> None:
        self._running.backward(self._scaled(loss), scale_wrt_gas=False)

    @arguments(own_checks=True)
    def optimizer_step(self, optimizer: Optimizer) -> bool:
        allowed = super().optimizer_step(optimizer)
        if not allowed:
            self._drop_gradients()
        return allowed

    def _parameters_of(self, optimizer: Optimizer) -> list[Tensor]:  # noqa: ARG002 - it has flat ones
        return list(self._running.module.parameters())

    def _drop_gradients(self) -> None:
        """Let the engine leave out a step, as only its own step clears the gradients it has gathered.

        Raises:
            RecipeError: it stepped.
        """
        gradients = self._prepared.gradients()
        for gradient in gradients:
            gradient.fill_(torch.inf)  # whichever rank has overflowed
        self._engine.step()
        for gradient in gradients:
            gradient.zero_()  # stage 3 keeps them: backward overwrites all but the padding
        if not self._engine.optimizer.overflow:
            raise RecipeError("DeepSpeed stepped with fp16 gradients that are not finite: use bf16 or fp32")

    @property
    def weight_parts(self) -> int:
        # a rank's share of the model itself: all of it, unless stage 3 partitions that too
        return self.world_size if self._options.zero_stage == 3 else 1

    def parameters_here(
        self,
        model: nn.Module,  # noqa: ARG002 - the engine's
    ) -> Iterator[tuple[str, Tensor, Tensor | None]]:
        """Yield pieces of the trained parameters' fp32 master weights and of their averaged gradients."""
        return self._prepared.pieces()

    @property
    def parameter_parts(self) -> int:
        return self.world_size

    def local_gradients(self, model: nn.Module) -> list[Tensor]:  # noqa: ARG002 - the engine's
        return self._prepared.gradients()

    def local_square(self, gradients: list[Tensor]) -> float:
        # under bf16 they are bf16, and a sum in it would have 8 bits
        squares = [torch.linalg.vector_norm(part, dtype=torch.float32).square() for part in gradients]
        return float(torch.stack(squares).sum()) if squares else 0.0

    def total_square(self, local: float) -> float:
        # each element is on one rank, and padding is zeros
        return self.group.sum([local])[0]

    @property
    def _prepared(self) -> DeepSpeedTensors:
        if self._tensors is None:
            raise _not_prepared()
        return self._tensors

    @property
    def _running(self) -> Any:
        """Return the engine, which `prepare_optimizer` makes."""
        if self._engine is None:
            raise _not_prepared()
        return self._engine

    def close(self) -> None:
        if self._engine is not None:
            self._engine.destroy()
            self._engine = self._tensors = None
        super().close()


def _not_prepared() -> RecipeError:
    return RecipeError(
        "under DeepSpeed the optimizer is prepared before training and checkpoints",
        fix="call optimizer = strategy.prepare_optimizer(wrapped, optimizer) after wrap_model",
    )


class EngineOptimizer(Optimizer):
    """Optimizer that steps an engine's partitions. Groups and state are those of the optimizer passed to the
    engine, with flat partitions in place of parameters.
    """

    def __init__(self, engine: Any) -> None:  # not over tensors: torch's own __init__ has nothing to do
        self._engine = engine

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        return self._engine.optimizer.param_groups  # type: ignore[no-any-return]

    @property
    def state(self) -> Any:  # type: ignore[override]
        return self._engine.optimizer.optimizer.state

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: FBT001, FBT002 - torch's signature
        self._engine.optimizer.zero_grad(set_to_none=set_to_none)

    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # noqa: ARG002 - torch's signature
        """Step the engine once.

        Raises:
            RecipeError: the gradient is not finite, so that DeepSpeed skipped the step.
        """
        self._engine.step()
        if self._engine.optimizer.overflow:
            raise RecipeError(
                "the gradient is not finite, so DeepSpeed left the step out: lower the "
                "learning rate (lr), clip the gradient (clip), or look at the loss function"
            )


class EngineModel(nn.Module):
    """The model to call. DeepSpeed's engine runs it once created, which needs the optimizer first."""

    def __init__(self, model: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.module = model
        self.call: Callable[..., Any] = model.__call__
        self._dtype = dtype
        self._device = device

    def compile(self, *args: Any, **kwargs: Any) -> None:
        # the engine's own code around the model must not be compiled
        self.module.compile(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        outside = not torch.is_autocast_enabled(self._device.type)
        if self._dtype != torch.float32:
            args, kwargs = _cast(args, self._dtype), _cast(kwargs, self._dtype)
        with torch.autocast(self._device.type, enabled=False):
            returned = self.call(*args, **kwargs)
        return in_fp32(returned) if outside else returned


def _cast(value: Any, dtype: torch.dtype) -> Any:
    """Return `value` with its floating-point tensors in `dtype`, in mappings, tuples and lists to any
    depth.
    """
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, Mapping):
        return {key: _cast(item, dtype) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_cast(item, dtype) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_cast(item, dtype) for item in value)
    return value


# DeepSpeed's engine, reduced to partitioning: the trainer accumulates, scales, clips and decides when.
# Derived from DeepSpeed 0.19.8: `runtime/engine.py`, `runtime/zero/stage_1_and_2.py`,
# `runtime/zero/stage3.py`. Without a GPU it runs on the CPU over gloo. DeepSpeed is imported only when an
# engine is requested.

_MIB = 1 << 20


def check_installed() -> None:
    """Raise RecipeError with install instructions unless DeepSpeed is installed."""
    if importlib.util.find_spec("deepspeed") is None:
        raise RecipeError(
            f'strategy is "deepspeed", and there is no DeepSpeed in {sys.executable}: '
            "`pip install 'torchdeck[deepspeed]'` there, or use \"fsdp\", which shards as ZeRO 3 does"
        )


def bucket_elements(settings: DeepSpeedSettings, precision: Precision) -> int:
    """Return the elements in a bucket of `bucket_size_mb`; gradients have the run's precision."""
    return max(1, int(settings.bucket_size_mb * _MIB) // precision.dtype.itemsize)


def engine_config(settings: DeepSpeedSettings, precision: Precision, device: torch.device) -> dict[str, Any]:
    """Return DeepSpeed's configuration; keys not set keep DeepSpeed's defaults."""
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
        # the trainer decides which backward is the last of a step, and weighs every loss itself
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 0.0,
        # torch's optimizer, also when it steps on the CPU: DeepSpeed's own is compiled at first use
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": zero,
        "bf16": {"enabled": precision.name == "bf16"},
    }


def make_engine(
    settings: DistributedSettings,
    options: DeepSpeedSettings,
    precision: Precision,
    device: torch.device,
    model: nn.Module,
    optimizer: Optimizer,
) -> Any:
    """Create a `DeepSpeedEngine` from `model`, whose parameters are partitioned or cast in place, and
    `optimizer`.

    The process group must be initialised: DeepSpeed uses it and does not create one.
    """
    # a torch API that DeepSpeed has yet to replace; the warning appears in every rank at every first gather
    warnings.filterwarnings("ignore", message=".*all_gather_into_tensor.*", category=FutureWarning)
    with _in_its_environment(device), contextlib.redirect_stdout(sys.stderr):
        # send its output to stderr: its logger keeps the stream found at import
        deepspeed = importlib.import_module("deepspeed")
        if device.type == "cpu":
            # would be compiled for shared memory; gloo works without
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
            config=engine_config(options, precision, device),
            dist_init_required=False,
        )
    return engine


@contextlib.contextmanager
def _in_its_environment(device: torch.device) -> Iterator[None]:
    """Set the variables by which DeepSpeed finds its device instead of guessing."""
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
