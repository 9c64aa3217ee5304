"""Settings of a training, as the arguments and config files of its program name them.

Read are transformers' TrainingArguments, TRL's, accelerate's, Axolotl's and LLaMA-Factory's YAML, DeepSpeed's
JSON, Lightning's and torchtitan's and Megatron's flags, and the variables of accelerate. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torchdeck.trainers.arguments import Named

Strategy = Literal["", "ddp", "fsdp", "zero"]
"""Division of the weights; empty if the arguments do not say."""
Sharding = Literal["full", "grad-op", "hybrid", "none"]
"""Sharding of FSDP: all, gradients and optimizer state, all within each node, or nothing."""

_TRAINER_MICROBATCH = ("per_device_train_batch_size",)
_MICROBATCH = (
    *_TRAINER_MICROBATCH,
    *("micro_batch_size", "train_micro_batch_size_per_gpu", "local_batch_size", "train_batch_size_per_gpu"),
)
_ACCUMULATION = ("gradient_accumulation_steps",)
_GLOBAL_BATCH = ("train_batch_size", "global_batch_size")
_LORA_RANK = ("lora_r", "lora_rank")
_SEQUENCE = (
    *("max_length", "max_seq_length", "sequence_len", "cutoff_len", "block_size", "seq_length", "seq_len"),
    *("model_max_length", "max_seq_len"),
)
_CHECKPOINTING = (
    *("gradient_checkpointing", "activation_checkpointing", "recompute_activations"),
    "activation_checkpoint.mode",
)
_FSDP_CHECKPOINTING = ("fsdp_activation_checkpointing", "fsdp_config.activation_checkpointing")
_DEGREES = (
    *("data_parallel_replicate_degree", "tensor_parallel_degree", "pipeline_parallel_degree"),
    *("context_parallel_degree", "tensor_model_parallel_size", "pipeline_model_parallel_size"),
    "context_parallel_size",
)
_MODEL = ("model_name_or_path", "base_model", "pretrained_model_name_or_path", "model_name", "model")
_WEIGHTS = ("torch_dtype", "model_dtype")
_OPTIMIZER = ("optim", "optimizer.type", "optimizer")
_PRECISIONS = ("bf16", "fp16")
_MIXED = ("mixed_precision", "precision", "mixed_precision_param")
_NAMES_OF_PRECISIONS = {"bf16": ("bf16", "bfloat16"), "fp16": ("fp16", "float16", "16")}
_NO_PRECISION = ("no", "32", "32-true", "fp32", "float32")
_ADAPTERS = ("use_peft", "adapter", "finetuning_type", "peft_type")
_TARGETS = ("lora_target_modules", "lora_target", "target_modules")
_TRUE = frozenset(("true", "1", "yes", "on", "auto", "full", "unsloth", "selective"))
_FALSE = frozenset(("false", "0", "no", "off", "none", "null", ""))
_LONGEST = 9
"""Digits of the largest number that means anything here."""
_SHARDINGS: Mapping[str, Sharding] = {
    "hybrid": "hybrid", "4": "hybrid", "5": "hybrid", "grad_op": "grad-op", "2": "grad-op",
    "no_shard": "none", "3": "none", "full": "full", "1": "full",
}  # fmt: skip
_VARIABLES = {
    "ACCELERATE_MIXED_PRECISION": "mixed_precision",
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "gradient_accumulation_steps",
    "ACCELERATE_DEEPSPEED_ZERO_STAGE": "zero_stage",
    "ACCELERATE_DEEPSPEED_CONFIG_FILE": "deepspeed_config_file",
    "ACCELERATE_USE_DEEPSPEED": "deepspeed",
    "ACCELERATE_USE_FSDP": "fsdp",
    "FSDP_SHARDING_STRATEGY": "fsdp_sharding_strategy",
    "FSDP_ACTIVATION_CHECKPOINTING": "fsdp_activation_checkpointing",
}
"""Variables that accelerate reads in a rank."""


@dataclass(frozen=True)
class ProgramSettings:
    """Settings of a program; None and empty where its arguments do not say."""

    model: Named | None = None
    """Name or folder of the model."""
    microbatch: Named | None = None
    accumulation: Named | None = None
    global_batch: Named | None = None
    sequence: Named | None = None
    """Tokens of a sample at most."""
    processes: Named | None = None
    """Ranks in all."""
    per_node: Named | None = None
    """Ranks of a node."""
    nodes: Named | None = None
    checkpointing: Named | None = None
    no_checkpointing: Named | None = None
    """Argument that switches it off."""
    fsdp_checkpointing: Named | None = None
    """The same, as FSDP's config names it."""
    precisions: tuple[Named, ...] = ()
    full_precision: Named | None = None
    """Argument by which there is no 16-bit precision, its value `fp32`."""
    mixed: Named | None = None
    """Precision as accelerate and Lightning name it: `bf16` or `fp16`."""
    weights: Named | None = None
    """Type in which the weights are loaded."""
    optimizer: Named | None = None
    lora: Named | None = None
    """Argument that asks for LoRA."""
    lora_rank: Named | None = None
    lora_targets: Named | None = None
    quantized: Named | None = None
    """Bits of the frozen weights: `4` or `8`."""
    quantized_twice: Named | None = None
    deepspeed: Named | None = None
    zero_stage: Named | None = None
    offload_optimizer: Named | None = None
    offload_parameters: Named | None = None
    fsdp: Named | None = None
    fsdp_sharding: Named | None = None
    named_strategy: Named | None = None
    """Lightning's `strategy`, or accelerate's `distributed_type` of a replicated model."""
    shards: Named | None = None
    degrees: tuple[Named, ...] = ()
    """Sizes of the groups of tensor, pipeline, context and replicated data parallelism."""
    attention: Named | None = None
    by_trainer: bool = False
    """Whether the arguments are those of the Hugging Face Trainer, which replicates by default."""
    repeated: tuple[tuple[Named, Named], ...] = ()
    """Settings that are given twice, by the program and by DeepSpeed's file, with different values."""
    missing: tuple[str, ...] = ()
    """Config files that are named and do not exist: a sentence each."""

    @property
    def anything(self) -> bool:
        """Whether anything is known."""
        return self != ProgramSettings()

    @property
    def uses_lora(self) -> bool:
        return self.lora is not None or self.lora_rank is not None

    @property
    def strategy(self) -> Strategy:
        """Division of the weights; empty if the arguments do not say."""
        name = "" if self.named_strategy is None else self.named_strategy.value.lower()
        if self.deepspeed is not None or self.zero_stage is not None or name.startswith("deepspeed"):
            return "zero"
        if self.fsdp is not None or name.startswith("fsdp"):
            return "fsdp"
        if self.shards is not None and self.shards.value != "1":
            return "fsdp"
        return "ddp" if name.startswith(("ddp", "multi_")) or self.by_trainer else ""

    @property
    def stage(self) -> int | None:
        """ZeRO's stage."""
        given = number(self.zero_stage)
        if given is None and self.named_strategy is not None:
            last = self.named_strategy.value.lower().removesuffix("_offload")[-1:]
            return int(last) if last in ("1", "2", "3") else None
        return given if given in (0, 1, 2, 3) else None

    @property
    def sharding(self) -> Sharding:
        """Sharding of FSDP; all by default."""
        text = "" if self.fsdp_sharding is None else self.fsdp_sharding.value.lower()
        if text == "false":
            return "grad-op"
        return next((found for word, found in _SHARDINGS.items() if word in text), "full")

    @property
    def precision(self) -> Named | None:
        """Precision of forward and backward, its value `bf16`, `fp16` or `fp32`; None if not given."""
        return self.precisions[0] if self.precisions else self.mixed or self.full_precision

    def summary(self, ranks: int | None) -> str:
        """Return what is known in a line: `micro-batch 8 × 2 ranks = 16 per step; bf16; LoRA rank 8`."""
        return "; ".join(self._parts(ranks))

    def _parts(self, ranks: int | None) -> Iterator[str]:
        batch = self.batch(ranks)
        if batch:
            yield batch
        if self.precision is not None:
            yield self.precision.value
        if self.checkpointing is not None or self.fsdp_checkpointing is not None:
            yield "activation checkpointing"
        if self.lora_rank is not None:
            yield f"LoRA rank {self.lora_rank.value}"
        if self.strategy == "zero":
            yield f"DeepSpeed{'' if self.stage is None else f' ZeRO {self.stage}'}"
        elif self.fsdp is not None:
            yield "FSDP"

    def batch(self, ranks: int | None) -> str:
        """Return `micro-batch 8 × accumulation 4 × 2 ranks = 64 per step`; empty without a micro-batch."""
        micro, steps = number(self.microbatch), number(self.accumulation) or 1
        if micro is None:
            return ""
        beside = f" × accumulation {steps}" if self.accumulation is not None else ""
        if ranks is None:
            return f"micro-batch {micro}{beside}"
        total = f" = {micro * steps * ranks:,} per step" if not self.degrees else ""
        return f"micro-batch {micro}{beside} × {ranks_text(ranks)}{total}"


def number(named: Named | None) -> int | None:
    """Return the whole number that `named` is, if it is one that a setting may have."""
    text = "" if named is None else named.value
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST else None


def ranks_text(count: int) -> str:
    return f"{count} rank{'s' * (count > 1)}"


def program_settings(
    given: Sequence[tuple[str, Named]],
    environment: Mapping[str, str] | None = None,
    missing: Sequence[str] = (),
) -> ProgramSettings:
    """Return the settings among `given`: (name, value) pairs, those that count more first.

    Args:
        given: of the arguments and config files.
        environment: variables that the run sets.
        missing: config files that do not exist: a sentence each.
    """
    values = _by_key(given, environment or {})
    kind = values.get("distributed_type")
    chosen = "" if kind is None else kind.value.upper()
    sharded = values.get("fsdp_sharding_strategy") or values.get("fsdp_reshard_after_forward")
    fsdp = _set(values.get("fsdp")) or (kind if chosen == "FSDP" else None)
    model = _text(values, _MODEL)
    microbatch = _first(values, _MICROBATCH)
    return ProgramSettings(
        model=model,
        microbatch=microbatch,
        accumulation=_first(values, _ACCUMULATION),
        global_batch=_first(values, _GLOBAL_BATCH),
        sequence=_first(values, _SEQUENCE),
        processes=_first(values, ("num_processes",)),
        per_node=_first(values, ("nproc_per_node", "trainer.devices")),
        nodes=_first(values, ("num_machines", "nnodes", "trainer.num_nodes")),
        checkpointing=_on(values, _CHECKPOINTING),
        no_checkpointing=_off(values, _CHECKPOINTING),
        fsdp_checkpointing=_on(values, _FSDP_CHECKPOINTING),
        precisions=_precisions(values),
        mixed=_mixed(values),
        full_precision=_full_precision(values),
        weights=_text(values, _WEIGHTS) or (model and _text(values, ("dtype",))),
        optimizer=_text(values, _OPTIMIZER),
        lora=_lora(values),
        lora_rank=_first(values, _LORA_RANK),
        lora_targets=_targets(values),
        **_quantized(values),
        deepspeed=_set(values.get("deepspeed") or values.get("deepspeed_config"))
        or (kind if chosen == "DEEPSPEED" else None),
        zero_stage=_first(values, ("zero_optimization.stage", "zero_stage")),
        offload_optimizer=_set(_text(values, ("offload_optimizer.device", "offload_optimizer_device"))),
        offload_parameters=_set(_text(values, ("offload_param.device", "offload_param_device")))
        or _on(values, ("fsdp_offload_params", "cpu_offload")),
        fsdp=fsdp,
        fsdp_sharding=sharded if sharded is not None else fsdp if fsdp is not kind else None,
        named_strategy=_named_strategy(values) or (kind if chosen.startswith("MULTI_") else None),
        shards=_first(values, ("data_parallel_shard_degree",)),
        degrees=tuple(values[key] for key in _DEGREES if number(values.get(key))),
        attention=_text(values, ("attn_implementation",)),
        by_trainer=microbatch is not None
        and (model is not None or microbatch is values.get(_TRAINER_MICROBATCH[0])),
        repeated=tuple(_repeated(given)),
        missing=tuple(missing),
    )


def _by_key(given: Sequence[tuple[str, Named]], environment: Mapping[str, str]) -> dict[str, Named]:
    """Return the first value of each name; variables count last."""
    variables = (
        (_VARIABLES[name], Named(value, name)) for name, value in environment.items() if name in _VARIABLES
    )
    values: dict[str, Named] = {}
    for name, named in (*given, *variables):
        for key in _keys(name):
            values.setdefault(key, named)
    return values


def _keys(name: str) -> list[str]:
    """Return the names by which a dotted name may be known: its last part, and its last two."""
    parts = name.lower().replace("-", "_").split(".")
    return [".".join(parts[-2:]), parts[-1]] if len(parts) > 1 else parts


def _first(values: Mapping[str, Named], names: Sequence[str]) -> Named | None:
    return next((values[name] for name in names if number(values.get(name)) is not None), None)


def _text(values: Mapping[str, Named], names: Sequence[str]) -> Named | None:
    return next((values[name] for name in names if name in values and values[name].value), None)


def _on(values: Mapping[str, Named], names: Sequence[str]) -> Named | None:
    return next((values[name] for name in names if _is_on(values.get(name))), None)


def _is_on(named: Named | None) -> bool:
    return named is not None and named.value.lower() in _TRUE


def _off(values: Mapping[str, Named], names: Sequence[str]) -> Named | None:
    return next(
        (values[name] for name in names if name in values and values[name].value.lower() in _FALSE), None
    )


def _set(named: Named | None) -> Named | None:
    return None if named is None or named.value.lower() in _FALSE else named


def _precisions(values: Mapping[str, Named]) -> tuple[Named, ...]:
    """Return bf16 and fp16 as far as they are switched on. DeepSpeed's `auto` follows the trainer's."""
    return tuple(
        values[key]._replace(value=name)
        for name in _PRECISIONS
        for key in (name, f"{name}.enabled")
        if _is_on(values.get(key)) and (key == name or values[key].value != "auto")
    )


def _mixed(values: Mapping[str, Named]) -> Named | None:
    """Return the precision that accelerate, Lightning or torchtitan is given."""
    for key in _MIXED:
        text = values[key].value.lower() if key in values else ""
        for name, words in _NAMES_OF_PRECISIONS.items():
            if text.removesuffix("-mixed").removesuffix("-true") in words:
                return values[key]._replace(value=name)
    return None


def _full_precision(values: Mapping[str, Named]) -> Named | None:
    found = _off(values, ("bf16",)) or next(
        (values[key] for key in _MIXED if key in values and values[key].value.lower() in _NO_PRECISION), None
    )
    return None if found is None else found._replace(value="fp32")


def _named_strategy(values: Mapping[str, Named]) -> Named | None:
    """Return Lightning's strategy; other programs call other things so."""
    named = _text(values, ("trainer.strategy", "strategy"))
    known = named is not None and named.value.lower().startswith(("ddp", "fsdp", "deepspeed"))
    return named if known else None


def _lora(values: Mapping[str, Named]) -> Named | None:
    for key in _ADAPTERS:
        named = values.get(key)
        if named is not None and ((_is_on(named) and key == "use_peft") or "lora" in named.value.lower()):
            return named
    return None


def _targets(values: Mapping[str, Named]) -> Named | None:
    every = _on(values, ("lora_target_linear",))
    return every._replace(value="all-linear") if every is not None else _text(values, _TARGETS)


def _quantized(values: Mapping[str, Named]) -> dict[str, Named | None]:
    found = [
        values[key]._replace(value=bits)
        for key, bits in (("load_in_4bit", "4"), ("load_in_8bit", "8"))
        if _is_on(values.get(key))
    ]
    bits = _first(values, ("quantization_bit",))
    found += [] if bits is None or bits.value not in ("4", "8") else [bits]
    return {
        "quantized": found[0] if found else None,
        "quantized_twice": found[1] if len(found) > 1 and found[1].value != found[0].value else None,
    }


def _repeated(given: Sequence[tuple[str, Named]]) -> Iterator[tuple[Named, Named]]:
    """Yield what the program and DeepSpeed's file give different numbers for: the trainer refuses that."""
    files = {
        named.file
        for name, named in given
        if "train_micro_batch_size_per_gpu" in name or "zero_optimization" in name
    } - {""}
    for names in (
        (*_TRAINER_MICROBATCH, "micro_batch_size", "train_micro_batch_size_per_gpu"),
        _ACCUMULATION,
    ):
        of = [named for name, named in given if _keys(name)[-1] in names and number(named) is not None]
        own = next((named for named in of if named.file not in files), None)
        theirs = next((named for named in of if named.file in files), None)
        if own is not None and theirs is not None and own.value != theirs.value:
            yield own, theirs
