"""`torchdeck batchplan shard`: each rank's part as a plan of its own."""

from __future__ import annotations

import argparse
import sys

from torchdeck.cli.batchplan.data_source import check_dealing_options
from torchdeck.cli.batchplan.progress import ProgressLine
from torchdeck.data.batch_plan import BatchPlanError, idle_ranks, load_batch_plan, save_shards


def run(args: argparse.Namespace) -> int:
    """Write `rank_R/` for every rank, all of them or nothing."""
    check_dealing_options(args)
    plan = load_batch_plan(args.plan)
    if plan.meta.shard is not None:
        raise BatchPlanError(f"{args.plan} is already a shard: divide the whole plan instead")
    warning = idle_ranks(plan, args.world_size)
    progress = ProgressLine()
    try:
        save_shards(
            plan,
            args.world_size,
            args.output,
            balance=args.balance,
            window=args.window,
            cost=args.cost,
            layout=args.layout,
            overwrite=args.overwrite,
            progress=progress,
        )
    finally:
        progress.end()
    if warning:
        sys.stderr.write(f"torchdeck batchplan shard: warning: {warning}\n")
    last = args.world_size - 1
    names = "rank_0" if last == 0 else f"rank_0 to rank_{last}"
    sys.stdout.write(f"{plan.total_microbatches:,} microbatches divided: {args.output}/{names}\n")
    return 0
