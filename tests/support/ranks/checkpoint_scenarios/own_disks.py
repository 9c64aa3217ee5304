"""Checkpoints of nodes that share no disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from support.ranks import checkpoint_ranks as ranks
from support.ranks.checkpoint_scenarios.fault_point import FaultPoint, moments
from support.ranks.checkpoint_scenarios.small_training import (
    digest,
    fill,
    inner,
    make,
    open_store,
    refusal,
    train,
)
from torchdeck.contract.checkpoints.choose import choose_checkpoint
from torchdeck.contract.checkpoints.listing import list_checkpoints
from torchdeck.contract.checkpoints.verification import verify
from torchdeck.distributed.checkpoints.tensors.model_state import model_tensors


def own_disks(folder: Path, per_node: str) -> dict[str, Any]:
    """FSDP on two nodes that share nothing: each rank's directory is `node-N`, `per_node` ranks to a node.

    Saves twice and rotates, loads at the same size and at others, without a part, and with a damaged one.
    """
    each = int(per_node)

    def here(rank: ranks.Rank) -> Path:
        return folder / f"node-{rank.rank // each}" / "saved"

    def save(rank: ranks.Rank) -> list[str]:
        state = make("fsdp", rank)
        train(state, 1)
        store = open_store(here(rank), rank, "fsdp", keep_last=1)
        store.save(state, 1)
        store.save_in_background(state, 2)
        store.wait()
        return [digest(model_tensors(state.model)), *train(state, 2)]

    def load(rank: ranks.Rank) -> list[Any]:
        state = make("fsdp", rank, seed=7)
        store = open_store(here(rank), rank, "fsdp", attempt=2)
        loaded = store.load(here(rank) / "step_00000002", state)
        weights = digest(model_tensors(state.model))
        left = sorted(path.name for path in here(rank).iterdir() if path.name.startswith(".tmp"))
        torch.distributed.barrier()
        return [weights, *(train(state, 2) if loaded.rng_restored else ["other"]), *left]

    def refuse(rank: ranks.Rank) -> str:
        state = make("fsdp", rank, seed=7)
        store = open_store(here(rank), rank, "fsdp", attempt=2)
        return refusal(lambda: store.load(here(rank) / "step_00000002", state))

    world = 2 * each
    saved = ranks.results(ranks.run_round(folder, world, save))
    nodes = [folder / f"node-{node}" / "saved" for node in range(2)]
    listed = [sorted(path.name for path in (node / "step_00000002").iterdir()) for node in nodes]
    sound = [[info.path.name for info in list_checkpoints(node) if not verify(info.path)] for node in nodes]
    same = ranks.results(ranks.run_round(folder, world, load))
    other = ranks.results(ranks.run_round(folder, world + 1, load))
    shard = next((nodes[1] / "step_00000002").glob("*.distcp"))
    content = shard.read_bytes()
    shard.write_bytes(content[:-1] + b"?")
    damaged = ranks.results(ranks.run_round(folder, world, refuse))
    shutil.rmtree(nodes[1] / "step_00000002")
    lost = ranks.results(ranks.run_round(folder, world, refuse))
    return {
        "saved": saved,
        "listed": listed,
        "sound": sound,
        "same": same,
        "other": other,
        "damaged": damaged,
        "lost": lost,
    }


def killed_on_own_disks(folder: Path, seed: str, count: str, copies: str = "0") -> dict[str, Any]:
    """Kill one of two ranks that share no disk at a moment of a save; then continue as the first agent would.

    What the first node takes for complete has to be so on both; with copies, on either alone.
    """
    template, replicas = folder / "template", int(copies)
    ranks.results(ranks.run_round(folder, 2, _save(template, 1, replicas=replicas)))
    shutil.copytree(template, folder / "counted")
    totals = ranks.results(ranks.run_round(folder, 2, _save(folder / "counted", 2, replicas=replicas)))
    outcomes = []
    # the last moments of each are those of the manifests
    for victim, at in moments(totals, count, seed, last=24):
        where = folder / f"killed-{victim}-{at}"
        shutil.copytree(template, where)
        ended = ranks.run_round(folder, 2, _save(where, 2, victim, at, replicas=replicas))
        again = ranks.run_round(folder, 2, _resume(where))
        outcomes.append([victim, at, ended[victim].signal, [one.result or one.error for one in again]])
        shutil.rmtree(where)
    return {"totals": totals, "outcomes": outcomes}


def _here(where: Path, rank: ranks.Rank) -> Path:
    return where / f"node-{rank.rank}"


def _save(
    where: Path, step: int, victim: int = -1, at: int = 0, *, replicas: int
) -> Callable[[ranks.Rank], int]:
    """A save of one rank on each node; that of `victim` dies at its moment `at`."""

    def body(rank: ranks.Rank) -> int:
        state = make("fsdp", rank)
        train(state, 1)
        fill(state, step)
        store = open_store(_here(where, rank), rank, "fsdp", keep_last=1, replicas=replicas)
        fault = FaultPoint(where, at if rank.rank == victim else 0)
        refusal(lambda: store.save(state, step))
        return fault.count

    return body


def _resume(where: Path) -> Callable[[ranks.Rank], list[Any]]:
    """Load what the first node takes for the newest: its step, and the values that came with it."""

    def body(rank: ranks.Rank) -> list[Any]:
        state = make("fsdp", rank, seed=3)
        chosen = choose_checkpoint(where / "node-0", "auto").folder
        torch.distributed.barrier()
        store = open_store(_here(where, rank), rank, "fsdp", keep_last=1, attempt=2)
        loaded = store.load(_here(where, rank) / str(chosen and chosen.name), state)
        bias = inner(state).blocks[0].bias
        torch.distributed.barrier()
        return [loaded.step, sorted(set(bias.full_tensor().tolist()))]

    return body
