"""`torchdeck batchplan info`: what a plan holds, and what each rank would do."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from torchdeck.cli.batchplan.options import check_dealing_options
from torchdeck.cli.batchplan.summary import info_text
from torchdeck.cli.json_text import json_text
from torchdeck.data.batch_plan import (
    BatchPlan,
    BatchPlanError,
    ShardStats,
    bucket_table,
    compute_shard_stats,
    idle_ranks,
    load_batch_plan,
)

SHOWN_MICROBATCHES = 8
SHOWN_IDS = 16


def run(args: argparse.Namespace) -> int:
    """Show the plan; with a world size, what each rank would have to do."""
    if args.rank is not None and args.world_size is None:
        raise BatchPlanError("--rank needs --world-size: a rank is one of so many")
    check_dealing_options(args)
    plan = load_batch_plan(args.plan)
    value = _plan(plan)
    if args.world_size is not None:
        if plan.meta.shard is not None:
            raise BatchPlanError(f"{args.plan} is a shard already: share out the whole plan")
        value["world"] = _world(plan, args)
    sys.stdout.write(json_text(value, indent=2) + "\n" if args.json else info_text(value))
    return 0


def _plan(plan: BatchPlan) -> dict[str, Any]:
    meta = plan.meta.to_json()
    buckets = bucket_table(plan)
    total = {name: sum(row[name] for row in buckets) for name in ("samples", "tokens", "padding")}
    return {
        "fingerprint": plan.fingerprint,
        **meta,
        "epochs": plan.epochs,
        "microbatches": plan.total_microbatches,
        **total,
        "buckets": buckets,
    }


def _world(plan: BatchPlan, args: argparse.Namespace) -> dict[str, Any]:
    choice = {"balance": args.balance, "window": args.window, "cost": args.cost}
    stats = compute_shard_stats(plan, args.world_size, **choice)
    world: dict[str, Any] = {
        "world_size": args.world_size,
        "balance": args.balance,
        "imbalance": round(stats.imbalance, 6),
        "warning": idle_ranks(plan, args.world_size),
    }
    if args.rank is None:
        return {**world, "ranks": [dict(stats[rank]) for rank in stats]}
    return {**world, "rank": _rank(plan, args.rank, stats, choice)}


def _rank(plan: BatchPlan, rank: int, stats: ShardStats, choice: dict[str, Any]) -> dict[str, Any]:
    shard = plan.shard(rank, len(stats), **choice)
    first = [
        {
            "index": microbatch.index,
            "bucket_id": microbatch.bucket_id,
            "max_len": microbatch.max_len,
            "batch_size": microbatch.batch_size,
            "tokens": microbatch.tokens,
            "sample_ids": microbatch.sample_ids[:SHOWN_IDS].tolist(),
        }
        for microbatch, _ in zip(shard.iter_epoch(0), range(SHOWN_MICROBATCHES), strict=False)
    ]
    return {"rank": rank, **stats[rank], "first_microbatches": first}
