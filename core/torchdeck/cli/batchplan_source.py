"""What a batch plan is made from, as the command line names it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from torchdeck.cli.batchplan_progress import ProgressLine
from torchdeck.data.batch_plan import (
    Column,
    content_fingerprint,
    lengths_fingerprint,
    measure_dataset,
    read_lengths,
)


@dataclass(frozen=True, eq=False)
class PlanSource:
    """Lengths, their unit, and fingerprints; None where nothing was given."""

    lengths: Column | None
    unit: str
    dataset_fingerprint: str | None
    tokenizer_fingerprint: str | None


def read_source(args: argparse.Namespace, progress: ProgressLine) -> PlanSource:
    """What `--lengths` or `--dataset`, and `--tokenizer`, name.

    Raises:
        BatchPlanError: a file is not what it should be.
        OSError: it cannot be read.
    """
    tokenizer = None if args.tokenizer is None else content_fingerprint(args.tokenizer)
    if args.lengths is not None:
        lengths = read_lengths(args.lengths, progress=progress)
        return PlanSource(lengths, "tokens", lengths_fingerprint(lengths), tokenizer)
    if args.dataset is not None:
        measured = measure_dataset(args.dataset, progress=progress)
        return PlanSource(measured.lengths, measured.unit, measured.fingerprint, tokenizer)
    return PlanSource(None, "tokens", None, tokenizer)
