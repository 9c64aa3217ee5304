"""Saves that fail on one rank, and are told by all."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path
from typing import Any

import torch

from support.ranks import checkpoint_ranks as ranks
from support.ranks.checkpoint_scenarios.small_training import (
    make,
    open_store,
    refusal,
    train,
)
from torchdeck.contract.checkpoints.verification import verify


def one_rank_fails(folder: Path, limited_rank: str) -> dict[str, Any]:
    """One rank may not write a file larger than 1 KiB (RLIMIT_FSIZE); then it may again."""

    def body(rank: ranks.Rank) -> dict[str, Any]:
        state = make("fsdp", rank)
        train(state, 1)
        store = open_store(folder / "saved", rank, "fsdp")
        store.save(state, 1)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        if rank.rank == int(limited_rank):
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
        sentence = refusal(lambda: store.save(state, 2))
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        torch.distributed.barrier()  # rank 0 clears up after it has heard of the failure
        listed = sorted(path.name for path in (folder / "saved").iterdir())
        torch.distributed.barrier()
        return {"sentence": sentence, "listed": listed, "later": store.save(state, 3).name}

    outcome = ranks.results(ranks.run_round(folder, 2, body))
    return {"ranks": outcome, "problems": verify(folder / "saved" / "step_00000001")}


def different_states(folder: Path) -> list[str]:
    """Only rank 0's optimizer has stepped: of its state rank 1 has not the share that it would write."""

    def body(rank: ranks.Rank) -> str:
        state = make("single", rank)
        if rank.rank == 0:
            train(state, 1)
        store = open_store(folder / "saved", rank, "ddp")
        return refusal(lambda: store.save(state, 1))

    sentences: list[str] = ranks.results(ranks.run_round(folder, 2, body))
    return sentences


def disk_full(folder: Path, mount: str, how: str) -> dict[str, Any]:
    """A checkpoint directory on a file system that runs full in the second save."""

    def body(rank: ranks.Rank) -> list[str]:
        state = make("fsdp", rank)
        train(state, 1)
        store = open_store(Path(mount) / "saved", rank, "fsdp")
        store.save(state, 1)
        torch.distributed.barrier()
        if rank.rank == 0:
            filler = Path(mount) / "filler"
            free = shutil.disk_usage(mount).free
            filler.write_bytes(b"\0" * max(0, free - 16384))
        torch.distributed.barrier()
        if how == "at once":
            return [refusal(lambda: store.save(state, 2))]
        store.save_in_background(state, 2)
        return [refusal(store.wait), refusal(store.wait)]

    outcome = ranks.results(ranks.run_round(folder, 2, body))
    saved = Path(mount) / "saved"
    return {
        "ranks": outcome,
        "listed": sorted(path.name for path in saved.iterdir()),
        "problems": verify(saved / "step_00000001"),
    }
