"""`torchdeck batchplan verify`: whether a plan, or all its shards, can be trusted."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from torchdeck.cli.batchplan.data_source import read_source
from torchdeck.cli.batchplan.progress import ProgressLine
from torchdeck.cli.output import json_text
from torchdeck.data.batch_plan import BatchPlanError, check_shards, is_plan, load_batch_plan
from torchdeck.use_cases.batch_plans.source import PlanSource

DAMAGED = 1


def run(args: argparse.Namespace) -> int:
    """Hash and check what was named; 1 when something is wrong with it."""
    folder = Path(args.plan)
    if not is_plan(folder) and not any(folder.glob("rank_*")):
        raise BatchPlanError(f"there is no batch plan in {folder}, and no rank_0")
    progress = ProgressLine()
    try:
        source = read_source(args, progress)
        problem = _problem(folder, source)
    finally:
        progress.end()
    compared = source.lengths is not None
    data = "" if compared else "; the data was not compared; give --dataset PATH or --lengths FILE to do so"
    if args.json:
        value = {"plan": args.plan, "sound": problem is None, "problem": problem, "data_compared": compared}
        sys.stdout.write(json_text(value, indent=2) + "\n")
    else:
        sys.stdout.write(f"{args.plan}: sound{data}\n" if problem is None else f"{problem}\n")
    return 0 if problem is None else DAMAGED


def _problem(folder: Path, source: PlanSource) -> str | None:
    expected = {
        "expect_dataset": source.dataset_fingerprint,
        "expect_tokenizer": source.tokenizer_fingerprint,
    }
    try:
        if is_plan(folder):
            load_batch_plan(folder, verify=True, **expected)
        else:
            check_shards(folder, **expected)
    except BatchPlanError as error:
        return str(error)
    return None
