"""`torchdeck batchplan info`: what a plan holds, and what each rank would do."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchdeck.cli.batchplan.data_source import check_dealing_options
from torchdeck.cli.output import json_text
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
        raise BatchPlanError("--rank needs --world-size")
    check_dealing_options(args)
    plan = load_batch_plan(args.plan)
    value = _plan(plan)
    if args.world_size is not None:
        if plan.meta.shard is not None:
            raise BatchPlanError(f"{args.plan} is already a shard: divide the whole plan instead")
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


# A batch plan for people, from the object that `--json` prints.

SHOWN_RANKS = 16


def info_text(value: Mapping[str, Any]) -> str:
    """All of `value`, lines with an end."""
    lines = [*_head(value), *_buckets(value["buckets"])]
    if "world" in value:
        lines += ["", *_world_lines(value["world"])]
    return "".join(f"{line}\n" for line in lines)


def _head(value: Mapping[str, Any]) -> Iterator[str]:
    settings, counts, shard = value["settings"], value["counts"], value["shard"]
    yield f"fingerprint  {value['fingerprint']}"
    if shard is not None:
        yield f"shard        rank {shard['rank']} of {shard['world_size']} ({shard['fingerprint']})"
    yield f"data set     {value['dataset_fingerprint'] or 'without fingerprint'}, {value['size']:,} samples"
    yield f"tokenizer    {value['tokenizer_fingerprint'] or 'without fingerprint'}"
    left_out = counts["dropped_long"] + counts["dropped_empty"]
    yield f"samples      {counts['used']:,} used, {counts['truncated']:,} truncated, {left_out:,} dropped"
    packed = ", packed" if settings["pack"] else ""
    yield f"settings     at most {settings['token_budget']:,} tokens, seed {settings['seed']}{packed}"
    epochs = "1 epoch" if value["epochs"] == 1 else f"{value['epochs']} epochs"
    padding = _share(value["padding"], value["tokens"])
    yield f"microbatches {value['microbatches']:,} in {epochs}: {value['tokens']:,} tokens, {padding} padding"


def _buckets(buckets: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [
        (
            str(row["bucket"]),
            f"{row['up_to']:,}",
            f"{row['microbatches']:,}",
            f"{row['samples']:,}",
            f"{row['tokens']:,}",
            _share(row["padding"], row["tokens"]),
        )
        for row in buckets
    ]
    return ["", *_aligned([("bucket", "up to", "microbatches", "samples", "tokens", "padding"), *rows])]


def _world_lines(world: Mapping[str, Any]) -> list[str]:
    balance = "" if world["balance"] == "none" else f", balanced by {world['balance']}"
    lines = [
        f"{world['world_size']} ranks{balance}: most tokens of a rank / mean = {world['imbalance']:.4f}",
    ]
    if world["warning"]:
        lines.append(f"warning: {world['warning']}")
    if "rank" in world:
        return [*lines, *_rank_lines(world["rank"])]
    ranks = world["ranks"]
    shown = [(str(rank), *_work(row)) for rank, row in list(enumerate(ranks))[:SHOWN_RANKS]]
    lines += _aligned([("rank", "microbatches", "samples", "tokens", "padding"), *shown])
    if len(ranks) > SHOWN_RANKS:
        tokens = [row["total_tokens"] for row in ranks]
        lines.append(
            f"and {len(ranks) - SHOWN_RANKS:,} more (--rank R shows one); of all: {min(tokens):,} to "
            f"{max(tokens):,} tokens"
        )
    return lines


def _rank_lines(rank: Mapping[str, Any]) -> list[str]:
    microbatches, samples, tokens, padding = _work(rank)
    work = f"{microbatches} microbatches, {samples} samples, {tokens} tokens, {padding} padding"
    lines = [f"rank {rank['rank']}: {work}"]
    for first in rank["first_microbatches"]:
        ids = ", ".join(map(str, first["sample_ids"]))
        more = ", …" if first["batch_size"] > len(first["sample_ids"]) else ""
        lines.append(f"  {first['index']}: {first['batch_size']} × {first['max_len']}, samples {ids}{more}")
    return lines


def _work(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return (
        f"{row['num_batches']:,}",
        f"{row['total_samples']:,}",
        f"{row['total_tokens']:,}",
        _share(row["padding"], row["total_tokens"]),
    )


def _share(padding: int, tokens: int) -> str:
    return f"{100 * padding / (padding + tokens) if padding else 0:.1f} %"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
