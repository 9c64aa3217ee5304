"""All shards of a plan on disk: `rank_0/`, `rank_1/`, …, each a batch plan of its own."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from torchdeck.data.batch_plan.balance import Balance, check_world_size
from torchdeck.data.batch_plan.columns import BatchPlanError, Column
from torchdeck.data.batch_plan.files.length_files import Progress
from torchdeck.data.batch_plan.files.plan_files import (
    Layout,
    check_place,
    load_batch_plan,
    write_plan,
    written_whole,
)
from torchdeck.data.batch_plan.plan import BatchPlan, repeated
from torchdeck.data.batch_plan.sharding import all_shards


def save_shards(
    plan: BatchPlan,
    world_size: int,
    path: str | os.PathLike[str],
    *,
    balance: Balance = "none",
    window: int | None = None,
    cost: int | None = None,
    layout: Layout = "columns",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write the shard of every rank under the folder `path`, all of them or nothing.

    Args:
        plan: the whole plan.
        world_size: ranks in all.
        path: must not exist, or be an empty folder.
        balance, window, cost: as for `BatchPlan.shard`.
        layout, overwrite: as for `save_batch_plan`.
        progress: called after each rank.

    Raises:
        BatchPlanError: an argument is out of range, or `path` exists already.
        OSError: it cannot be written; nothing is left behind.
    """
    world_size = check_world_size(world_size)
    check_place(path, overwrite=overwrite)

    def write(folder: Path) -> None:
        shards = all_shards(plan, world_size, balance=balance, window=window, cost=cost)
        for rank, shard in enumerate(shards):
            place = folder / f"rank_{rank}"
            place.mkdir()
            write_plan(shard, place, layout, durable=False)
            if progress is not None:
                progress("shards written", rank + 1, world_size)
        # one sync for all: syncing each of thousands of files would take minutes
        os.sync()

    written_whole(Path(path), write, overwrite=overwrite)


def check_shards(
    path: str | os.PathLike[str], *, expect_dataset: str | None = None, expect_tokenizer: str | None = None
) -> None:
    """Hash and check every shard under `path`, and that together they are one whole plan.

    Raises:
        BatchPlanError: a shard is missing, damaged, stale or of another plan, or a sample is in two or none.
    """
    folder = Path(path)
    first = _shard(folder, 0, expect_dataset, expect_tokenizer)
    used: list[list[Column]] = [[] for _ in range(first.epochs)]
    whole = _part_of(folder, 0, first)
    for rank in range(whole[1]):
        shard = first if rank == 0 else _shard(folder, rank, expect_dataset, expect_tokenizer)
        if _part_of(folder, rank, shard) != whole:
            raise BatchPlanError(f"{folder / f'rank_{rank}'} is a shard of another plan than rank_0")
        for epoch, parts in enumerate(used):
            # a copy, since a mapping would keep a file open for each rank
            parts.append(shard.epoch_columns(epoch).sample_ids.copy())
    for epoch, parts in enumerate(used):
        twice = repeated(np.concatenate(parts))
        if len(twice):
            ranks = " and ".join(str(rank) for rank, ids in enumerate(parts) if twice[0] in ids)
            raise BatchPlanError(f"{folder}: sample {twice[0]} of epoch {epoch} is in ranks {ranks}")
        found = sum(map(len, parts))
        if found != first.meta.counts.used:
            raise BatchPlanError(
                f"{folder}: the shards of epoch {epoch} have {found} samples together, but "
                f"{first.meta.counts.used} are planned"
            )


def _shard(folder: Path, rank: int, dataset: str | None, tokenizer: str | None) -> BatchPlan:
    place = folder / f"rank_{rank}"
    return load_batch_plan(place, verify=True, expect_dataset=dataset, expect_tokenizer=tokenizer)


def _part_of(folder: Path, rank: int, plan: BatchPlan) -> tuple[str, int, str]:
    """Return the plan's fingerprint, the number of ranks, and the balance of a shard."""
    shard = plan.meta.shard
    if shard is None or shard.rank != rank:
        raise BatchPlanError(f"{folder / f'rank_{rank}'} is not the shard of rank {rank}")
    return shard.fingerprint, shard.world_size, shard.balance
