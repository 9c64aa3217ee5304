"""Training that continues from a checkpoint: as if nothing had been, at another size, or not at all."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from support.ranks import checkpoint_ranks as ranks
from support.ranks.checkpoint_scenarios.small_training import (
    STEPS,
    Net,
    digest,
    make,
    open_store,
    optimizer_digest,
    refusal,
    train,
)
from torchdeck.contract.checkpoints.choose import choose_checkpoint
from torchdeck.distributed.checkpoints.store import TrainState
from torchdeck.distributed.checkpoints.tensors.model_state import model_tensors


def exact_resume(folder: Path, strategy: str, world_size: str, how: str) -> dict[str, Any]:
    """2n steps at once, and n, stop, resume in new processes, n.

    Saved in the background, training continues while the checkpoint is written, and none of that may be in
    it.
    """
    world = int(world_size)

    def whole(rank: ranks.Rank) -> list[Any]:
        state = make(strategy, rank)
        losses = train(state, 2 * STEPS)
        return [losses, digest(model_tensors(state.model), own=True), optimizer_digest(state)]

    def first(rank: ranks.Rank) -> list[str]:
        state = make(strategy, rank)
        losses = train(state, STEPS)
        state.position = {"epoch": 1}
        state.scaler_state = {"scale": 0.1 + 0.2}
        store = open_store(folder / "saved", rank, strategy)
        if how == "background":
            store.save_in_background(state, STEPS)
            train(state, STEPS)
            store.wait()
        else:
            store.save(state, STEPS)
        return losses

    def second(rank: ranks.Rank) -> list[Any]:
        state = make(strategy, rank, seed=9)
        train(state, 1)  # whatever was there before the load must not show
        chosen = choose_checkpoint(folder / "saved", "auto")
        loaded = open_store(folder / "saved", rank, strategy, attempt=2).load(Path(str(chosen.folder)), state)
        losses = train(state, STEPS)
        exact = [losses, digest(model_tensors(state.model), own=True), optimizer_digest(state)]
        return [
            exact,
            [loaded.step, loaded.position, loaded.scaler_state, loaded.rng_restored, loaded.notice],
        ]

    straight = ranks.results(ranks.run_round(folder, world, whole))
    begun = ranks.results(ranks.run_round(folder, world, first))
    resumed = ranks.results(ranks.run_round(folder, world, second))
    joined = [[before + exact[0], *exact[1:]] for before, (exact, _) in zip(begun, resumed, strict=True)]
    return {"straight": straight, "joined": joined, "loaded": [loaded for _, loaded in resumed]}


def other_world(folder: Path) -> dict[str, Any]:
    """FSDP on 2 ranks saved, loaded by one process, DDP and FSDP; what one process saved, loaded by FSDP."""

    def save(rank: ranks.Rank) -> str:
        state = make("fsdp" if rank.world_size > 1 else "single", rank)
        train(state, 2)
        open_store(folder / f"by-{rank.world_size}", rank, "x").save(state, 2)
        return digest(model_tensors(state.model))

    def load(source: str, strategy: str) -> Callable[[ranks.Rank], Any]:
        def body(rank: ranks.Rank) -> list[Any]:
            state = make(strategy, rank, seed=5)
            loaded = open_store(folder / "elsewhere", rank, strategy).load(
                folder / source / "step_00000002", state
            )
            weights = digest(model_tensors(state.model))
            drawn = [torch.rand(1).item(), random.random()]  # noqa: S311 - data, not secrets
            train(state, 1)
            return [weights, loaded.rng_restored, loaded.notice, drawn]

        return body

    saved = ranks.results(ranks.run_round(folder, 2, save)) + ranks.results(ranks.run_round(folder, 1, save))
    cases = {
        "fsdp2→single": (1, load("by-2", "single")),
        "fsdp2→ddp2": (2, load("by-2", "ddp")),
        "single→fsdp2": (2, load("by-1", "fsdp")),
        "single→ddp2": (2, load("by-1", "ddp")),
        "single→ddp2 again": (2, load("by-1", "ddp")),
    }
    loaded = {
        name: ranks.results(ranks.run_round(folder, world, body)) for name, (world, body) in cases.items()
    }
    return {"saved": saved, "loaded": loaded}


def refused_together(folder: Path) -> list[list[str]]:
    """Loads that every rank refuses with the same sentence: a flipped byte, another model or optimizer."""

    def body(rank: ranks.Rank) -> list[str]:
        state = make("ddp", rank)
        train(state, 1)
        store = open_store(folder / "saved", rank, "ddp")
        good, bad = store.save(state, 1), store.save(state, 2)
        if rank.rank == 0:
            shard = next(bad.glob("*.distcp"))
            content = bytearray(shard.read_bytes())
            content[len(content) // 2] ^= 1
            shard.write_bytes(content)
        torch.distributed.barrier()
        before = digest(model_tensors(state.model))
        wider = TrainState(Net(12), [])
        sgd = TrainState(state.model, [torch.optim.SGD(state.model.parameters(), lr=1.0)])
        refused = [
            refusal(lambda: store.load(bad, state)),
            refusal(lambda: store.load(good, wider)),
            refusal(lambda: store.load(good, sgd)),
        ]
        unchanged = digest(model_tensors(state.model)) == before
        return [*refused, str(unchanged), str(store.load(good, state).step)]

    sentences: list[list[str]] = ranks.results(ranks.run_round(folder, 2, body))
    return sentences
