"""A script's training as its own arguments and config files say, for the preview."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.trainers.arguments import Named
from torchdeck.trainers.contradictions import Contradiction, Ranks, contradictions, missing_files
from torchdeck.trainers.program_settings import ProgramSettings, number

HEADING = "What the program's own arguments say"
UNKNOWN = "unknown"
_SHARDING = {
    "full": "full shard",
    "grad-op": "gradients and optimizer state",
    "hybrid": "hybrid",
    "none": "no shard",
}


class ProgramRow(NamedTuple):
    """One setting."""

    name: str
    value: str
    """Empty if the arguments do not say."""
    source: str
    """Argument, or key and file: `--bf16`, `lora_r in sft.yaml`; empty if unknown."""


@dataclass(frozen=True)
class ProgramPreview:
    """Settings of a program, which Torchdeck reads and does not decide."""

    summary: str
    """Known settings in a line; may be empty."""
    rows: tuple[ProgramRow, ...]
    contradictions: tuple[Contradiction, ...]

    def document(self) -> dict[str, list[dict[str, str | None]]]:
        """Return plain values: `settings` and `contradictions`."""
        return {
            "settings": [
                {"name": row.name, "value": row.value or None, "source": row.source or None}
                for row in self.rows
            ],
            "contradictions": [{"what": each.what, "fix": each.fix} for each in self.contradictions],
        }


def make_program(
    settings: ProgramSettings | None, plan: LaunchPlan, *, own_ranks: bool
) -> ProgramPreview | None:
    """Return the settings of a script for its preview; None if its arguments say nothing.

    Args:
        settings: settings of the program.
        plan: plan of the run.
        own_ranks: the program starts its own ranks, so the plan's number says nothing of them.
    """
    if settings is None or not settings.anything:
        return None
    ranks = Ranks.of([node.nproc for node in plan.nodes])
    count = number(settings.processes) if own_ranks else ranks.world_size
    found = tuple(missing_files(settings) if own_ranks else contradictions(settings, ranks))
    return ProgramPreview(settings.summary(count), tuple(_rows(settings, count)), found)


def _rows(settings: ProgramSettings, ranks: int | None) -> Iterator[ProgramRow]:
    yield _plain("Model", settings.model)
    yield _strategy(settings)
    yield _plain("World size", settings.processes)
    batch = (settings.microbatch, settings.accumulation)
    yield ProgramRow("Batch", settings.batch(ranks), _sources(*batch) if settings.microbatch else "")
    yield _plain("Sequence length", settings.sequence)
    yield _plain("Precision", settings.precision)
    yield _plain("Weights", settings.weights)
    again = settings.checkpointing or settings.fsdp_checkpointing
    said = "on" if again else "off" if settings.no_checkpointing else ""
    yield ProgramRow("Activation checkpointing", said, _sources(again or settings.no_checkpointing))
    yield _plain("Optimizer", settings.optimizer)
    yield _lora(settings)


def _plain(name: str, named: Named | None) -> ProgramRow:
    return ProgramRow(name, "" if named is None else named.value, _sources(named))


def _sources(*named: Named | None) -> str:
    """Return `--bf16`, or `lora_r, adapter in sft.yaml`."""
    files: dict[str, list[str]] = {}
    for each in named:
        if each is not None:
            key = each.origin.removesuffix(f" in {each.file}") if each.file else each.origin
            names = files.setdefault(each.file, [])
            names += [key] if key not in names else []
    parts = [", ".join(names) + (f" in {file}" if file else "") for file, names in files.items()]
    return "; ".join(parts)


def _strategy(settings: ProgramSettings) -> ProgramRow:
    match settings.strategy:
        case "zero":
            stage = "stage unknown" if settings.stage is None else f"stage {settings.stage}"
            offloaded = [
                name
                for name, named in (
                    ("optimizer", settings.offload_optimizer),
                    ("weights", settings.offload_parameters),
                )
                if named is not None
            ]
            host = f", {' and '.join(offloaded)} in host memory" if offloaded else ""
            source = _sources(settings.deepspeed or settings.named_strategy, settings.zero_stage)
            return ProgramRow("Strategy", f"DeepSpeed ZeRO, {stage}{host}", source)
        case "fsdp":
            host = ", weights in host memory" if settings.offload_parameters else ""
            by = settings.fsdp or settings.named_strategy or settings.shards
            return ProgramRow(
                "Strategy",
                f"FSDP, {_SHARDING[settings.sharding]}{host}",
                _sources(by, settings.fsdp_sharding),
            )
        case "ddp" if settings.named_strategy is not None:
            return ProgramRow("Strategy", "DDP", settings.named_strategy.origin)
        case "ddp":
            return ProgramRow("Strategy", "DDP", "the trainer's default: no FSDP, no DeepSpeed")
        case _:
            return ProgramRow("Strategy", "", "")


def _lora(settings: ProgramSettings) -> ProgramRow:
    if not settings.uses_lora:
        return ProgramRow("LoRA", "", "")
    rank = "rank unknown" if settings.lora_rank is None else f"rank {settings.lora_rank.value}"
    parts = [rank]
    if settings.lora_targets is not None:
        parts.append(settings.lora_targets.value.strip("[]"))
    if settings.quantized is not None:
        parts.append(f"weights in {settings.quantized.value} bit")
    source = _sources(settings.lora, settings.lora_rank, settings.lora_targets, settings.quantized)
    return ProgramRow("LoRA", ", ".join(parts), source)
