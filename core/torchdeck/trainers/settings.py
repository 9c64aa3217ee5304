"""Settings of a training, as the arguments and config files of its program name them; contradictions.

Read are transformers' TrainingArguments, accelerate's, Axolotl's and LLaMA-Factory's YAML, DeepSpeed's JSON,
torchtitan's and Megatron's flags. Pure, but for reading the files; nothing is executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torchdeck.trainers.arguments import Named

_MICROBATCH = (
    *("per_device_train_batch_size", "micro_batch_size", "train_micro_batch_size_per_gpu"),
    "local_batch_size",
)
_ACCUMULATION = ("gradient_accumulation_steps",)
_GLOBAL_BATCH = ("train_batch_size", "global_batch_size")
_PROCESSES = ("num_processes", "nproc_per_node")
_LORA = ("lora_r", "lora_rank")
_CHECKPOINTING = ("gradient_checkpointing", "activation_checkpointing", "recompute_activations")
_SHARDS = ("data_parallel_shard_degree",)
_DEGREES = (
    *("data_parallel_replicate_degree", "tensor_parallel_degree", "pipeline_parallel_degree"),
    *("context_parallel_degree", "tensor_model_parallel_size", "pipeline_model_parallel_size"),
    "context_parallel_size",
)
_PRECISIONS = ("bf16", "fp16")
_TRUE = frozenset(("true", "1", "yes", "on", "auto", "full"))
_FALSE = frozenset(("false", "0", "no", "off", "none", "null", ""))
_LONGEST = 9
"""Digits of the largest number that means anything here."""


class Contradiction(NamedTuple):
    """Two settings that cannot both be meant."""

    what: str
    fix: str


@dataclass(frozen=True)
class ProgramSettings:
    """Settings of a program; None and empty where its arguments do not say."""

    microbatch: Named | None = None
    accumulation: Named | None = None
    global_batch: Named | None = None
    processes: Named | None = None
    lora_rank: Named | None = None
    checkpointing: Named | None = None
    precisions: tuple[Named, ...] = ()
    deepspeed: Named | None = None
    zero_stage: Named | None = None
    fsdp: Named | None = None
    shards: Named | None = None
    degrees: tuple[Named, ...] = field(default=())
    """Sizes of the groups of tensor, pipeline, context and replicated data parallelism."""

    def summary(self, ranks: int) -> str:
        """Return what is known in a line: `micro-batch 8 × 2 ranks = 16 a step; bf16; LoRA rank 8`."""
        return "; ".join(self._parts(ranks))

    def _parts(self, ranks: int) -> Iterator[str]:
        micro, steps = _number(self.microbatch), _number(self.accumulation) or 1
        if micro is not None:
            beside = f" × accumulation {steps}" if self.accumulation is not None else ""
            total = f" = {micro * steps * ranks:,} a step" if not self.degrees else ""
            yield f"micro-batch {micro}{beside} × {ranks} rank{'s' * (ranks > 1)}{total}"
        yield from dict.fromkeys(named.value for named in self.precisions)
        if self.checkpointing is not None:
            yield "activation checkpointing"
        if self.lora_rank is not None:
            yield f"LoRA rank {self.lora_rank.value}"
        if self.zero_stage is not None:
            yield f"DeepSpeed ZeRO {self.zero_stage.value}"
        elif self.deepspeed is not None:
            yield "DeepSpeed"
        if self.fsdp is not None:
            yield "FSDP"

    def contradictions(self, ranks: int) -> Iterator[Contradiction]:
        """Yield what the settings contradict: each other, or a plan of `ranks` ranks."""
        processes = self.processes
        if processes is not None and _number(processes) not in (None, ranks):
            what = f"{processes.origin} is {processes.value}, and this plan has {_ranks(ranks)}"
            yield Contradiction(what, "make them equal; torchrun's number of ranks is the plan's")
        if self.deepspeed is not None and self.fsdp is not None:
            what = f"both DeepSpeed ({self.deepspeed.origin}) and FSDP ({self.fsdp.origin}) are set"
            yield Contradiction(what, "keep one of them")
        if len({named.value for named in self.precisions}) > 1:
            what = " and ".join(f"{named.value} ({named.origin})" for named in self.precisions)
            yield Contradiction(f"both {what} are on", "keep one of them")
        yield from self._batch(ranks)
        yield from self._groups(ranks)

    def _batch(self, ranks: int) -> Iterator[Contradiction]:
        total, micro, steps = map(_number, (self.global_batch, self.microbatch, self.accumulation))
        if total is None or micro is None or self.global_batch is None or self.degrees:
            return
        needed = micro * (steps or 1) * ranks
        if total != needed and (steps is not None or total % (micro * ranks)):
            times = f" × {steps}" if steps is not None else ""
            what = f"{self.global_batch.origin} is {total}, and {micro}{times} × {_ranks(ranks)} is {needed}"
            yield Contradiction(what, "change one of them")

    def _groups(self, ranks: int) -> Iterator[Contradiction]:
        product = 1
        for degree in self.degrees:
            product *= _number(degree) or 1
        shards = _number(self.shards)
        named = [named for named in (*self.degrees, self.shards) if named is not None and named.value != "1"]
        listed = " × ".join(f"{each.origin} {each.value}" for each in named)
        if shards is not None and product * shards != ranks:
            what = f"{listed} is {product * shards}, and this plan has {_ranks(ranks)}"
            yield Contradiction(what, "choose sizes whose product is the number of ranks")
        elif shards is None and ranks % product:
            what = f"{listed} is {product}, which does not divide {_ranks(ranks)}"
            yield Contradiction(what, "choose sizes whose product divides the number of ranks")


def program_settings(given: Sequence[tuple[str, Named]]) -> ProgramSettings:
    """Return the settings among `given`: (name, value) pairs, those that count more first."""
    values: dict[str, Named] = {}
    for name, named in given:
        for key in _keys(name):
            values.setdefault(key, named)
    mixed = values.get("mixed_precision")
    precisions = [
        values[key]._replace(value=name)
        for name in _PRECISIONS
        for key in (name, f"{name}.enabled")
        if _is_on(values.get(key))
    ]
    if not precisions and mixed is not None and mixed.value.lower() in _PRECISIONS:
        precisions = [mixed._replace(value=mixed.value.lower())]
    kind = values.get("distributed_type")
    chosen = "" if kind is None else kind.value.upper()
    return ProgramSettings(
        microbatch=_first(values, _MICROBATCH),
        accumulation=_first(values, _ACCUMULATION),
        global_batch=_first(values, _GLOBAL_BATCH),
        processes=_first(values, _PROCESSES),
        lora_rank=_first(values, _LORA),
        checkpointing=next((values[key] for key in _CHECKPOINTING if _is_on(values.get(key))), None),
        precisions=tuple(precisions),
        deepspeed=_set(values.get("deepspeed") or values.get("deepspeed_config"))
        or (kind if chosen == "DEEPSPEED" else None),
        zero_stage=_first(values, ("zero_optimization.stage", "zero_stage")),
        fsdp=_set(values.get("fsdp")) or (kind if chosen == "FSDP" else None),
        shards=_first(values, _SHARDS),
        degrees=tuple(values[key] for key in _DEGREES if _number(values.get(key))),
    )


def _keys(name: str) -> list[str]:
    """Return the names by which a dotted name may be known: its last part, and its last two."""
    parts = name.lower().replace("-", "_").split(".")
    return [".".join(parts[-2:]), parts[-1]] if len(parts) > 1 else parts


def _first(values: Mapping[str, Named], names: Sequence[str]) -> Named | None:
    return next((values[name] for name in names if _number(values.get(name)) is not None), None)


def _number(named: Named | None) -> int | None:
    text = "" if named is None else named.value
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST else None


def _is_on(named: Named | None) -> bool:
    return named is not None and named.value.lower() in _TRUE


def _set(named: Named | None) -> Named | None:
    return None if named is None or named.value.lower() in _FALSE else named


def _ranks(count: int) -> str:
    return f"{count} rank{'s' * (count > 1)}"
