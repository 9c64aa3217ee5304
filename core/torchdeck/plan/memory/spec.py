"""Settings by which a run divides a model among its ranks: everything memory depends on besides the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from torchdeck.config.distributed import Distributed
from torchdeck.config.schema import RunConfig

Kind = Literal["single", "ddp", "fsdp", "hsdp", "zero1", "zero2", "zero3"]

KINDS: tuple[Kind, ...] = ("single", "ddp", "fsdp", "hsdp", "zero1", "zero2", "zero3")
FULLY_SHARDED: tuple[Kind, ...] = ("fsdp", "hsdp")
ZERO: tuple[Kind, ...] = ("zero1", "zero2", "zero3")

PRECISION_SIZES: Mapping[str, int] = {"fp32": 4, "bf16": 2, "fp16": 2}
"""Bytes of one element, by the precision's name in run.toml."""

_REDUCTION = "fp32"
"""Precision of gradient reduction if the config has auto; see distributed/strategies/fsdp.py."""


@dataclass(frozen=True)
class StrategySpec:
    """Training settings that memory depends on.

    Raises:
        ValueError: the values are inconsistent.
    """

    kind: Kind
    world_size: int
    shard: int = 1
    """Ranks that share one copy of the state: 1 for single and ddp, all for fsdp and ZeRO."""
    microbatch: int = 1
    """Samples per forward and backward."""
    accumulation: int = 1
    precision: str = "fp32"
    checkpointing: bool = False
    reshard_after_forward: bool = True
    param_precision: str = "fp32"
    """Precision of gathered parameters under fsdp and hsdp."""
    reduce_precision: str = "fp32"
    """Precision of gradient reduction under fsdp and hsdp."""
    bucket_mb: float = 25.0
    """Size of DDP's buckets, MiB."""
    gradient_as_bucket_view: bool = True
    comm_hook: Literal["none", "bf16", "powersgd"] = "none"
    """Compression of DDP's gradients for communication."""
    powersgd_rank: int = 2
    cpu_offload: bool = False
    """fsdp and hsdp: weights, gradients and optimizer state are in host memory."""
    offload: bool = False
    """ZeRO: optimizer state is in host memory, not on the device."""
    offload_parameters: bool = False
    """ZeRO 3: weights are in host memory too."""
    zero_bucket_mb: float = 50.0
    """Size of ZeRO's buckets, MiB."""
    optimizer: str = "adamw"
    """`adamw`, `adam` or `sgd`; of a program also one of `optimizers.OTHERS`."""
    momentum: float = 0.0
    weight_decay: float = 0.01
    ema: bool = False
    """Whether a moving average of the weights is kept."""
    stored: str = "fp32"
    """Precision in which a program loads its weights, under single and ddp."""
    is_program: bool = False
    """Whether it is a script with a trainer of its own, whose libraries take more memory."""
    device: Literal["cpu", "cuda"] = "cpu"
    backend: str = "gloo"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"there is no strategy {self.kind!r}; expected one of {', '.join(KINDS)}")
        least = {"world_size": self.world_size, "shard": self.shard, "microbatch": self.microbatch}
        for name, number in {**least, "accumulation": self.accumulation}.items():
            if number < 1:
                raise ValueError(f"{name} is {number}; expected 1 or more")
        if self.world_size % self.shard:
            raise ValueError(
                f"{self.world_size} ranks cannot form groups of {self.shard} that shard the weights: "
                "the size of a group must divide the world size"
            )

    @property
    def replicas(self) -> int:
        """Number of groups that each hold the whole state."""
        return self.world_size // self.shard

    @property
    def state_on_host(self) -> bool:
        """Whether state kept between steps is off the device. For a CPU rank both are the same memory."""
        return self.cpu_offload and self.kind in FULLY_SHARDED and self.device == "cuda"

    @property
    def param_size(self) -> int:
        """Bytes per element of a gathered parameter."""
        return PRECISION_SIZES[self.param_precision]

    @property
    def reduce_size(self) -> int:
        """Bytes per element of a gradient during communication."""
        return PRECISION_SIZES[self.reduce_precision]

    @property
    def engine_precision(self) -> str:
        """Precision in which DeepSpeed's engine stores and sends weights and gradients. In fp16 the model
        computes under autocast instead (distributed/strategies/deepspeed/strategy.py).
        """
        return "fp32" if self.precision == "fp16" else self.precision

    @property
    def cast(self) -> bool:
        """Whether weights enter the forward in its precision: gathered or stored in it, not copied by
        autocast.
        """
        if self.kind in FULLY_SHARDED:
            return self.param_precision != "fp32"
        if self.kind in ZERO:
            return self.engine_precision != "fp32"
        return self.stored != "fp32"

    @property
    def sharded(self) -> str:
        """The state that the ranks of a group share, as a phrase with its verb."""
        partly = {"zero1": "optimizer state is", "zero2": "gradients and optimizer state are"}
        return partly.get(self.kind, "weights are")

    def with_kind(self, kind: Kind, *, shard: int | None = None) -> StrategySpec:
        """Return the same run under another strategy; hsdp requires `shard`."""
        return replace(self, kind=kind, shard=_shard(kind, self.world_size, shard))


def spec_from(
    config: RunConfig,
    world_size: int,
    *,
    device: Literal["cpu", "cuda"] = "cpu",
    backend: str | None = None,
    shard: int | None = None,
) -> StrategySpec:
    """Return the training settings of `config`.

    Args:
        config: config of a recipe run.
        world_size: number of ranks.
        device: device type of the ranks.
        backend: `gloo` or `nccl`; None: the default for `device`.
        shard: ranks per group under hsdp; None: distributed.hsdp.shard, else all ranks.

    Raises:
        ValueError: the groups of hsdp do not divide the ranks.
    """
    training, distributed = config.training, config.distributed
    kind = kind_of(distributed)
    options = distributed.fsdp
    return StrategySpec(
        kind=kind,
        world_size=world_size,
        shard=_shard(kind, world_size, shard or distributed.hsdp.shard),
        microbatch=training.microbatch,
        accumulation=training.accumulation,
        precision=training.precision,
        checkpointing=training.activation_checkpointing,
        reshard_after_forward=options.reshard_after_forward,
        param_precision=training.precision if options.param_dtype == "auto" else options.param_dtype,
        reduce_precision=_REDUCTION if options.reduce_dtype == "auto" else options.reduce_dtype,
        bucket_mb=distributed.ddp.bucket_size_mb,
        gradient_as_bucket_view=distributed.ddp.gradient_as_bucket_view,
        comm_hook=distributed.ddp.comm_hook if kind == "ddp" else "none",
        powersgd_rank=distributed.ddp.powersgd_rank,
        cpu_offload=options.cpu_offload and kind in FULLY_SHARDED,
        offload=distributed.deepspeed.offload_optimizer and kind in ZERO,
        offload_parameters=distributed.deepspeed.offload_parameters and kind == "zero3",
        zero_bucket_mb=distributed.deepspeed.bucket_size_mb,
        optimizer=training.optimizer,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
        ema=training.ema is not None,
        device=device,
        backend=backend or ("nccl" if device == "cuda" else "gloo"),
    )


def kind_of(distributed: Distributed) -> Kind:
    """Return the strategy of a [distributed] table; for DeepSpeed, the ZeRO stage."""
    if distributed.strategy != "deepspeed":
        return distributed.strategy
    stages: dict[int, Kind] = {1: "zero1", 2: "zero2", 3: "zero3"}
    return stages[distributed.deepspeed.zero_stage]


def _shard(kind: Kind, world_size: int, asked: int | None) -> int:
    if kind in ("single", "ddp"):
        return 1
    return asked or world_size if kind == "hsdp" else world_size
