"""A program's training for the memory model: its settings, and its trainer's defaults for the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from torchdeck.plan.memory.optimizers import known_optimizer
from torchdeck.plan.memory.spec import PRECISION_SIZES, Kind, StrategySpec
from torchdeck.trainers.arguments import Named
from torchdeck.trainers.program_settings import ProgramSettings, number

_MIB = 1 << 20
_ZERO_BUCKET = 500_000_000
"""DeepSpeed's default `reduce_bucket_size`, in elements."""
_MICROBATCH = 8
"""`per_device_train_batch_size` of TrainingArguments."""
_SEQUENCE = 1024
"""`max_length` of TRL; the Hugging Face Trainer has no such setting."""
_LORA_RANK = 16
_ZERO_STAGES: tuple[Kind, ...] = ("zero1", "zero2", "zero3")
_TYPES: Mapping[str, str] = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "fp16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "fp32": "fp32",
    "float": "fp32",
}


class UnknownTrainingError(ValueError):
    """The settings do not say enough; the message says what is missing."""


@dataclass(frozen=True)
class ProgramTraining:
    """Settings that memory depends on; none is unknown."""

    kind: Kind
    precision: str
    stored: str
    """Precision in which weights are loaded."""
    microbatch: int
    accumulation: int
    checkpointing: bool
    optimizer: str
    sequence: int | None
    """Tokens per sample; None: the model's longest, at most `_SEQUENCE`."""
    reshard_after_forward: bool = True
    offload_optimizer: bool = False
    offload_parameters: bool = False
    lora_rank: int | None = None
    quantized: int | None = None
    eager: bool = False
    assumed: tuple[str, ...] = ()
    """Settings that the arguments do not give: `micro-batch 8`."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Key of run.toml → the program's own name for the setting."""

    def spec(self, world_size: int, of_node: int | None, device: str, backend: str) -> StrategySpec:
        """Return how these ranks divide the model.

        Args:
            world_size: number of ranks.
            of_node: ranks of each node; None if they differ.
            device: `cpu` or `cuda`.
            backend: `gloo` or `nccl`.

        Raises:
            ValueError: the ranks cannot be divided so.
        """
        kind: Kind = "single" if self.kind == "ddp" and world_size == 1 else self.kind
        shard = 1 if kind in ("single", "ddp") else world_size
        if kind == "hsdp":
            shard = of_node or world_size
        sharded = kind in ("fsdp", "hsdp")
        where: Literal["cpu", "cuda"] = "cuda" if device == "cuda" else "cpu"
        return StrategySpec(
            kind=kind,
            world_size=world_size,
            shard=shard,
            microbatch=self.microbatch,
            accumulation=self.accumulation,
            precision=self.precision,
            checkpointing=self.checkpointing,
            reshard_after_forward=self.reshard_after_forward,
            param_precision=self.precision if sharded else "fp32",
            reduce_precision=self.precision if sharded else "fp32",
            # accelerate's DDP leaves gradients beside the buckets
            gradient_as_bucket_view=False,
            cpu_offload=sharded and self.offload_parameters,
            offload=kind in _ZERO_STAGES and self.offload_optimizer,
            offload_parameters=kind == "zero3" and self.offload_parameters,
            zero_bucket_mb=_ZERO_BUCKET * PRECISION_SIZES[self.precision] / _MIB,
            optimizer=self.optimizer,
            stored="fp32" if sharded else self.stored,
            is_program=True,
            device=where,
            backend=backend,
        )


def program_training(settings: ProgramSettings, file_type: str, *, trl: bool) -> ProgramTraining:
    """Return the training of a program.

    Args:
        settings: settings by its arguments and configs.
        file_type: `torch_dtype` or `dtype` of the model's config.json; empty if not given.
        trl: its trainer is TRL's, with other defaults.

    Raises:
        UnknownTrainingError: the settings do not say enough.
    """
    assumed: list[str] = []
    precision = _precision(settings, assumed, trl=trl)
    kind = _kind(settings)
    stored, whole = _stored(settings, file_type), precision != "fp32"
    if stored is None:
        stored = "fp32"
    if not whole and stored != "fp32":
        precision = stored
    if upcasts(kind, settings) and whole:
        stored = "fp32"
    checkpointing = (settings.checkpointing or settings.fsdp_checkpointing) is not None
    if trl and not checkpointing and settings.no_checkpointing is None:
        checkpointing = True
        assumed.append("activation checkpointing (TRL's default)")
    return ProgramTraining(
        kind=kind,
        precision=precision,
        stored=stored,
        microbatch=_given(settings.microbatch, _MICROBATCH, "micro-batch", assumed),
        accumulation=number(settings.accumulation) or 1,
        checkpointing=checkpointing,
        optimizer=_optimizer(settings, assumed),
        sequence=_sequence(settings, assumed, trl=trl),
        reshard_after_forward=settings.sharding in ("full", "hybrid"),
        offload_optimizer=settings.offload_optimizer is not None,
        offload_parameters=settings.offload_parameters is not None,
        lora_rank=_given(settings.lora_rank, _LORA_RANK, "LoRA rank", assumed)
        if settings.uses_lora
        else None,
        quantized=number(settings.quantized),
        eager=settings.attention is not None and settings.attention.value == "eager",
        assumed=tuple(assumed),
        names=own_names(settings),
    )


def upcasts(kind: Kind, settings: ProgramSettings) -> bool:
    """Return whether loaded weights become fp32: accelerate's FSDP upcasts those that are trained."""
    return kind in ("fsdp", "hsdp") and not settings.uses_lora


def has_unknown_type(settings: ProgramSettings, file_type: str) -> bool:
    """Return whether weights may be loaded in fp32 or as the config.json has them: transformers 5 takes the
    latter, earlier ones the former.
    """
    return _stored(settings, file_type) is None


def _stored(settings: ProgramSettings, file_type: str) -> str | None:
    """Return the precision of loaded weights; None if only the version of transformers decides."""
    in_file = _TYPES.get(file_type, "fp32")
    given = "" if settings.weights is None else settings.weights.value.removeprefix("torch.")
    if given in _TYPES:
        return _TYPES[given]
    if given == "auto" or in_file == "fp32":
        return in_file
    return in_file if settings.quantized is not None else None


def _precision(settings: ProgramSettings, assumed: list[str], *, trl: bool) -> str:
    if settings.precision is not None:
        return settings.precision.value
    if trl:
        assumed.append("bf16 (TRL's default)")
        return "bf16"
    return "fp32"


def _kind(settings: ProgramSettings) -> Kind:
    match settings.strategy:
        case "ddp":
            return "ddp"
        case "fsdp":
            kinds: Mapping[str, Kind] = {"hybrid": "hsdp", "none": "ddp"}
            return kinds.get(settings.sharding, "fsdp")
        case "zero" if settings.stage is not None:
            return _ZERO_STAGES[settings.stage - 1] if settings.stage else "ddp"
        case "zero":
            raise UnknownTrainingError("the stage of ZeRO is not known")
        case _:
            raise UnknownTrainingError("the program's arguments name no strategy (DDP, FSDP, DeepSpeed)")


def _optimizer(settings: ProgramSettings, assumed: list[str]) -> str:
    if settings.optimizer is None:
        assumed.append("AdamW")
        return "adamw"
    found = known_optimizer(settings.optimizer.value)
    if found is None:
        raise UnknownTrainingError(f"the state of the optimizer {settings.optimizer.value} is not known")
    return found


def _sequence(settings: ProgramSettings, assumed: list[str], *, trl: bool) -> int | None:
    given = number(settings.sequence)
    if given is None:
        assumed.append(f"sequences of {_SEQUENCE:,} tokens{' (TRL)' if trl else ''}")
    return given


def _given(named: Named | None, usual: int, what: str, assumed: list[str]) -> int:
    found = number(named)
    if found is None:
        assumed.append(f"{what} {usual}")
    return found or usual


def own_names(settings: ProgramSettings) -> dict[str, str]:
    """Return the program's own names for settings that make memory smaller, by their keys in run.toml."""
    stage = settings.zero_stage
    usual = {
        "training.microbatch": "per_device_train_batch_size",
        "training.accumulation": "gradient_accumulation_steps",
        "training.activation_checkpointing": "gradient_checkpointing",
        "training.precision": "bf16",
        "training.optimizer": "optim",
        "distributed.strategy": "fsdp",
        "distributed.fsdp.reshard_after_forward": "fsdp",
        "distributed.deepspeed.zero_stage": "zero_optimization.stage",
        "distributed.deepspeed.offload_optimizer": "zero_optimization.offload_optimizer.device",
    }
    for key, named in (
        ("training.microbatch", settings.microbatch),
        ("training.accumulation", settings.accumulation),
        ("training.optimizer", settings.optimizer),
        ("distributed.deepspeed.zero_stage", stage),
    ):
        if named is not None:
            usual[key] = named.origin.removesuffix(f" in {named.file}") if named.file else named.origin
    by_arguments = settings.microbatch is not None and settings.microbatch.origin.startswith("--")
    if by_arguments:
        own = ("training.", "distributed.strategy", "distributed.fsdp")
        for key, name in usual.items():
            if key.startswith(own) and not name.startswith("-"):
                usual[key] = f"--{name}"
    return usual


def in_bf16(training: ProgramTraining) -> ProgramTraining:
    """Return the same training with bf16 mixed precision."""
    return replace(training, precision="bf16")
