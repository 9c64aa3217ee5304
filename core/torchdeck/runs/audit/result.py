"""Result of an audit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torchdeck.quantities import size


@dataclass(frozen=True)
class SamplesCheck:
    """Comparison of the recorded samples with those that the plan's own function gives for each step."""

    defects: tuple[str, ...] = ()
    """Differences, one sentence each; there must be none."""
    unknown: tuple[str, ...] = ()
    """Records that could not be compared, and why, one sentence each."""
    first_step: int | None = None
    """First step compared on every rank; None if none was."""
    last_step: int | None = None
    epochs: int = 0
    """Whole epochs in which each sample was found exactly once."""
    samples: int = 0
    """Samples compared, over all ranks."""
    discarded_steps: int = 0
    """Steps recorded but not in the history of the weights: repeated after a checkpoint was restored."""

    @property
    def equal(self) -> bool:
        """Whether every record was compared and is as planned."""
        return self.first_step is not None and not self.defects and not self.unknown


@dataclass(frozen=True)
class RankAudit:
    """One rank, predicted and measured; None if one of the two is not known."""

    rank: int
    predicted_memory_bytes: int | None = None
    """Peak without its context: interpreter, libraries and driver are not in the measurement either."""
    predicted_low_bytes: int | None = None
    predicted_high_bytes: int | None = None
    memory_bytes: int | None = None
    """Peak in the newest attempt."""
    memory_kind: str = ""
    """Kind of measurement: `allocated` (by torch on the device) or `resident` (growth of the resident set
    since before the model was built, including what allocators keep for themselves).
    """
    predicted_samples: int | None = None
    samples: int | None = None
    predicted_tokens: float | None = None
    tokens: float | None = None


@dataclass(frozen=True)
class Audit:
    """Finished run, predicted and measured."""

    predicted_steps: int | None
    steps: int | None
    """Optimizer steps in the history of the weights."""
    ranks: tuple[RankAudit, ...]
    samples: SamplesCheck
    notes: tuple[str, ...] = ()
    """Notes for interpreting the numbers."""

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        value = dataclasses.asdict(self)
        value["samples"]["equal"] = self.samples.equal
        return value


# Audit as readable text.

SHOWN = 16
"""Number of ranks shown, one per line; the others are in --json."""
DEFECT = "DEFECT"
"""Prefix of a line that reports a difference in samples."""


def verdict_lines(audit: Audit) -> list[str]:
    """Return whether the samples are as planned: one line if they are, all defects if not."""
    check = audit.samples
    if check.defects:
        head = f"{DEFECT}: the used samples differ from the planned ones"
        return [head, *(f"{DEFECT}: {sentence}" for sentence in check.defects), *check.unknown]
    if not check.equal:
        return [f"samples: {sentence}" for sentence in check.unknown]
    steps = f"{check.samples:,} as planned in steps {check.first_step:,} to {check.last_step:,}"
    epochs = {0: "", 1: "; 1 whole epoch, each sample once"}.get(
        check.epochs, f"; {check.epochs:,} whole epochs, each sample once in each"
    )
    again = "1 step was" if check.discarded_steps == 1 else f"{check.discarded_steps:,} steps were"
    discarded = f"; {again} done again" if check.discarded_steps else ""
    return [f"samples: {steps}{epochs}{discarded}"]


def table_lines(audit: Audit) -> list[str]:
    """Return a table of prediction and measurement, with notes; show `verdict_lines` with it."""
    ranks = [rank for rank in audit.ranks if rank != RankAudit(rank.rank)]
    heads = ["", _memory_head(audit), "samples", "tokens"]
    rows = [heads, *(_row(rank) for rank in ranks[:SHOWN])] if ranks else []
    shown = len(heads) if _counts_tokens(audit) else len(heads) - 1
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(shown)]
    lines = ["predicted | measured"]
    lines += [_joined(row[:shown], widths) for row in rows]
    if len(ranks) > SHOWN:
        lines.append(f"… and {len(ranks) - SHOWN:,} ranks more: see --json")
    lines.append(f"steps  {_pair(audit.predicted_steps, audit.steps)}")
    return [*lines, *(f"note: {note}" for note in audit.notes)]


def _memory_head(audit: Audit) -> str:
    kind = next((rank.memory_kind for rank in audit.ranks if rank.memory_kind), "")
    measured = {
        "resident": ": tensors | growth of the process",
        "allocated": ": tensors | allocated by torch",
    }
    return f"memory{measured.get(kind, '')}"


def _counts_tokens(audit: Audit) -> bool:
    """Return whether tokens are known: if a recipe counts none, its loss is the mean over samples."""
    return any(rank.predicted_tokens is not None or rank.tokens != rank.samples for rank in audit.ranks)


def _row(rank: RankAudit) -> list[str]:
    return [
        f"rank {rank.rank}",
        _memory(rank),
        _pair(rank.predicted_samples, rank.samples),
        _pair(rank.predicted_tokens, rank.tokens),
    ]


def _joined(cells: Sequence[str], widths: Iterable[int]) -> str:
    return "   ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _memory(rank: RankAudit) -> str:
    predicted, measured = "-", "-"
    if rank.predicted_memory_bytes is not None:
        predicted = size(rank.predicted_memory_bytes)
        if rank.predicted_low_bytes is not None and rank.predicted_high_bytes is not None:
            predicted += f" ({size(rank.predicted_low_bytes)} to {size(rank.predicted_high_bytes)})"
    if rank.memory_bytes is not None:
        measured = size(rank.memory_bytes)
    return f"{predicted} | {measured}"


def _pair(predicted: float | None, measured: float | None) -> str:
    return f"{_number(predicted)} | {_number(measured)}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
