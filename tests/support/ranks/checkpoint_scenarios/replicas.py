"""Checkpoints of nodes that share no disk, with a copy of each part on a second node."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch

from support.ranks import checkpoint_ranks as ranks
from support.ranks.checkpoint_scenarios.small_training import digest, make, open_store, refusal, train
from torchdeck.contract.checkpoints.listing import list_checkpoints
from torchdeck.contract.checkpoints.verification import verify
from torchdeck.distributed.checkpoints.tensors.model_state import model_tensors

NODES = 3
NAME = "step_00000002"


def lost_nodes(folder: Path, *lost: str) -> dict[str, Any]:
    """FSDP on three nodes that share nothing, saved with one copy; then nodes of it are lost.

    Args:
        folder: for everything.
        lost: nodes, each of which is lost by itself.
    """
    saved_at = folder / "saved"
    saved = ranks.results(ranks.run_round(folder, NODES, _save(saved_at)))
    nodes = [_here(saved_at, node) for node in range(NODES)]
    listed = [sorted(path.name for path in (node / NAME).iterdir()) for node in nodes]
    sound = [[info.path.name for info in list_checkpoints(node) if not verify(info.path)] for node in nodes]
    replaced, fewer = [], []
    for node in map(int, lost):
        where = folder / f"without-{node}"
        shutil.copytree(saved_at, where)
        shutil.rmtree(_here(where, node))
        # another node has its place: its folder is new
        replaced.append(ranks.results(ranks.run_round(folder, NODES, _load(where, range(NODES)))))
        left = [other for other in range(NODES) if other != node]
        shutil.rmtree(_here(where, node), ignore_errors=True)
        fewer.append(ranks.results(ranks.run_round(folder, NODES - 1, _load(where, left))))
    damaged = folder / "damaged"
    shutil.copytree(saved_at, damaged)
    shard = next((_here(damaged, 1) / NAME).glob("__1_*.distcp"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    from_copy = ranks.results(ranks.run_round(folder, NODES, _load(damaged, range(NODES))))
    for node in (0, 1):
        shutil.rmtree(_here(saved_at, node) / NAME)
    gone = ranks.results(ranks.run_round(folder, NODES, _refuse(saved_at)))
    return {
        "saved": saved,
        "listed": listed,
        "sound": sound,
        "replaced": replaced,
        "fewer": fewer,
        "from_copy": from_copy,
        "gone": gone,
    }


def _here(where: Path, node: int) -> Path:
    return where / f"node-{node}" / "saved"


def _save(where: Path) -> Any:
    def body(rank: ranks.Rank) -> list[str]:
        state = make("fsdp", rank)
        train(state, 1)
        store = open_store(_here(where, rank.rank), rank, "fsdp", keep_last=1, replicas=1)
        store.save(state, 1)
        store.save_in_background(state, 2)
        store.wait()
        return [digest(model_tensors(state.model)), *train(state, 2)]

    return body


def _load(where: Path, places: Any) -> Any:
    """Each rank on the node that `places` has for it."""

    def body(rank: ranks.Rank) -> list[str]:
        here = _here(where, places[rank.rank])
        state = make("fsdp", rank, seed=7)
        store = open_store(here, rank, "fsdp", attempt=2, replicas=1)
        loaded = store.load(here / NAME, state)
        weights = digest(model_tensors(state.model))
        torch.distributed.barrier()
        return [weights, *(train(state, 2) if loaded.rng_restored else [])]

    return body


def _refuse(where: Path) -> Any:
    def body(rank: ranks.Rank) -> str:
        here = _here(where, rank.rank)
        state = make("fsdp", rank, seed=7)
        store = open_store(here, rank, "fsdp", attempt=2)
        return refusal(lambda: store.load(here / NAME, state))

    return body
