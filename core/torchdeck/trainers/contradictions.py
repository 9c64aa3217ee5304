"""Settings of a program that contradict each other, or the plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torchdeck.trainers.arguments import Named
from torchdeck.trainers.program_settings import ProgramSettings, number, ranks_text

EQUAL = "make them equal; torchrun's number of ranks is the plan's"
ONE = "keep one of them"
CREATE = "create the file, or correct its path"


class Contradiction(NamedTuple):
    """Two settings that cannot both be meant."""

    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.what}: {self.fix}"


@dataclass(frozen=True)
class Ranks:
    """Ranks of a plan."""

    world_size: int
    nodes: int = 1
    of_node: int | None = None
    """Ranks of each node; None if they differ."""

    @classmethod
    def of(cls, nodes: Sequence[int]) -> Ranks:
        """Return them by the number on each node."""
        return cls(sum(nodes), len(nodes), nodes[0] if len(set(nodes)) == 1 else None)


def contradictions(settings: ProgramSettings, ranks: Ranks) -> Iterator[Contradiction]:
    """Yield what the settings of a program contradict: each other, or a plan of these ranks."""
    yield from missing_files(settings)
    yield from _counts(settings, ranks)
    yield from _exclusive(settings)
    for own, theirs in settings.repeated:
        what = f"{own.origin} is {own.value}, and {theirs.origin} is {theirs.value}"
        yield Contradiction(what, 'make them equal, or write "auto" into DeepSpeed\'s file')
    yield from _batch(settings, ranks.world_size)
    yield from _groups(settings, ranks.world_size)


def missing_files(settings: ProgramSettings) -> Iterator[Contradiction]:
    """Yield the config files that a program is to read, and that do not exist."""
    for what in settings.missing:
        yield Contradiction(what, CREATE)


def _counts(settings: ProgramSettings, ranks: Ranks) -> Iterator[Contradiction]:
    nodes = f"{ranks.nodes} node{'s' * (ranks.nodes > 1)}"
    for named, wanted, has in (
        (settings.processes, ranks.world_size, f"this plan has {ranks_text(ranks.world_size)}"),
        (settings.per_node, ranks.of_node, f"a node of this plan has {ranks_text(ranks.of_node or 1)}"),
        (settings.nodes, ranks.nodes, f"this plan has {nodes}"),
    ):
        if named is not None and wanted is not None and number(named) not in (None, wanted):
            yield Contradiction(f"{named.origin} is {named.value}, and {has}", EQUAL)


def _exclusive(settings: ProgramSettings) -> Iterator[Contradiction]:
    """Yield settings of which a program takes only one."""
    if settings.deepspeed is not None and settings.fsdp is not None:
        what = f"both DeepSpeed ({settings.deepspeed.origin}) and FSDP ({settings.fsdp.origin}) are set"
        yield Contradiction(what, ONE)
    precisions = [*settings.precisions, *([settings.mixed] if settings.mixed else [])]
    if len({named.value for named in precisions}) > 1:
        listed = dict.fromkeys(_with_origin(named) for named in precisions)
        yield Contradiction(f"both {' and '.join(listed)} are on", ONE)
    first, second = settings.quantized, settings.quantized_twice
    if first is not None and second is not None:
        both = " and ".join(f"{each.value}-bit ({each.origin})" for each in (first, second))
        yield Contradiction(f"both {both} weights are set", ONE)
    if first is not None and not settings.uses_lora:
        what = f"weights are loaded in {first.value} bit ({first.origin}), and no LoRA is asked for"
        yield Contradiction(what, "quantized weights cannot be trained: add LoRA, or load them whole")
    own, theirs = settings.checkpointing, settings.fsdp_checkpointing
    if settings.strategy == "fsdp" and own is not None and theirs is not None:
        what = f"activation checkpointing is set twice, by {own.origin} and by {theirs.origin}"
        yield Contradiction(what, "keep FSDP's: the trainer refuses both")


def _with_origin(named: Named) -> str:
    return f"{named.value} ({named.origin})"


def _batch(settings: ProgramSettings, ranks: int) -> Iterator[Contradiction]:
    total, micro, steps = map(number, (settings.global_batch, settings.microbatch, settings.accumulation))
    if total is None or micro is None or settings.global_batch is None or settings.degrees:
        return
    needed = micro * (steps or 1) * ranks
    if total != needed and (steps is not None or total % (micro * ranks)):
        times = f" × {steps}" if steps is not None else ""
        what = (
            f"{settings.global_batch.origin} is {total}, and {micro}{times} × {ranks_text(ranks)} is {needed}"
        )
        yield Contradiction(what, "change one of them")


def _groups(settings: ProgramSettings, ranks: int) -> Iterator[Contradiction]:
    product = 1
    for degree in settings.degrees:
        product *= number(degree) or 1
    shards = number(settings.shards)
    named = [
        named for named in (*settings.degrees, settings.shards) if named is not None and named.value != "1"
    ]
    listed = " × ".join(f"{each.origin} {each.value}" for each in named)
    if shards is not None and product * shards != ranks:
        what = f"{listed} is {product * shards}, and this plan has {ranks_text(ranks)}"
        yield Contradiction(what, "choose sizes whose product is the number of ranks")
    elif shards is None and ranks % product:
        what = f"{listed} is {product}, which does not divide {ranks_text(ranks)}"
        yield Contradiction(what, "choose sizes whose product divides the number of ranks")
