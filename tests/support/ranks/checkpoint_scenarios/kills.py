"""Ranks that are killed while they save."""

from __future__ import annotations

import shutil
import signal
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from support.ranks import checkpoint_ranks as ranks
from support.ranks.checkpoint_scenarios.fault_point import FaultPoint, moments
from support.ranks.checkpoint_scenarios.small_training import (
    fill,
    inner,
    make,
    train,
)
from support.ranks.forked_rank import Outcome
from torchdeck.contract.checkpoints.choose import choose_checkpoint
from torchdeck.contract.checkpoints.listing import list_checkpoints, newest_complete
from torchdeck.contract.checkpoints.verification import verify
from torchdeck.distributed.checkpoints.retention import Retention
from torchdeck.distributed.checkpoints.store import CheckpointError, CheckpointStore, TrainState

KEPT = (2, 3)
"""In the killed saves: a multiple of `keep_every`, and the best."""
_LOSSES = {2: 4.0, 3: 1.0, 5: 3.0, 7: 2.0}


def _selective(folder: Path, rank: ranks.Rank, attempt: int = 1) -> CheckpointStore:
    """Keeps the newest, every second step and the best by loss."""
    retention = Retention(1, keep_every=2, keep_best=1, best_metric="loss")
    return CheckpointStore(
        folder, retention, "test-run", attempt, rank.rank, rank.world_size, "x", timeout=20.0
    )


def killed_in_saves(folder: Path, world_size: str, seed: str, count: str, how: str) -> dict[str, Any]:
    """Kill one rank at a moment of saves that rotate and replace; then resume. `count` moments, or `all`.

    In the background, the weights change as soon as the call is back.
    """
    world, template, counted = int(world_size), folder / "template", folder / "counted"
    ranks.results(ranks.run_round(folder, world, partial(_prepare, template)))
    shutil.copytree(template, counted)
    totals = ranks.results(ranks.run_round(folder, world, partial(_saves, counted, how, -1, 0)))
    points = moments(totals, count, seed)
    failures = []
    for victim, at in points:
        where = folder / f"killed-{victim}-{at}"
        shutil.copytree(template, where)
        ended = ranks.run_round(folder, world, partial(_saves, where, how, victim, at))
        wrong = _wrong_after_kill(where, ended, victim)
        if not wrong:
            wrong = _wrong_after_resume(where, ranks.run_round(folder, world, partial(_resume, where)))
        if wrong:
            failures.append([victim, at, wrong])
        shutil.rmtree(where)
    return {"points": len(points), "totals": totals, "failures": failures}


def _made(rank: ranks.Rank, seed: int = 0) -> TrainState:
    return make("fsdp" if rank.world_size > 1 else "single", rank, seed)


def _prepare(template: Path, rank: ranks.Rank) -> None:
    """Checkpoints as they are before the save in which a rank is killed."""
    state = _made(rank)
    train(state, 1)
    store = _selective(template, rank)
    for step in (2, 3, 5):
        fill(state, step)
        store.save(state, step, metrics={"loss": _LOSSES[step]})
    store.save(state, 5, final=True)


def _saves(where: Path, how: str, victim: int, at: int, rank: ranks.Rank) -> int:
    """Rotate step 5 out, replace a step, replace `final`; `victim` is killed at its moment `at`."""
    state = _made(rank)
    train(state, 1)
    store = _selective(where, rank)
    fault = FaultPoint(where, at if rank.rank == victim else 0)
    try:
        for step, final in ((7, False), (7, False), (7, True)):
            fill(state, step)
            if final or how != "background":
                store.save(state, step, final=final, metrics={"loss": _LOSSES[step]})
            else:
                store.save_in_background(state, step, metrics={"loss": _LOSSES[step]})
                fill(state, -1)
    except CheckpointError:
        pass  # the other rank was killed
    return fault.count


def _resume(where: Path, rank: ranks.Rank) -> list[Any]:
    """Load the newest, save again: the step that was loaded, and the values that came with it."""
    state = _made(rank, seed=3)
    chosen = choose_checkpoint(where, "auto")
    if rank.world_size > 1:
        torch.distributed.barrier()
    store = _selective(where, rank, attempt=2)
    loaded = store.load(Path(str(chosen.folder)), state)
    bias = inner(state).blocks[0].bias
    values = set((bias.full_tensor() if isinstance(bias, DTensor) else bias).tolist())
    store.save(state, 9)
    return [loaded.step, sorted(values)]


def _wrong_after_kill(where: Path, ended: list[Outcome], victim: int) -> str:
    if ended[victim].signal != signal.SIGKILL:
        return f"rank {victim} was not killed: {ended[victim]}"
    for outcome in ended:
        if outcome.error:
            return f"the other rank did not end well: {outcome.error}"
    complete = [info for info in list_checkpoints(where) if info.complete]
    if newest_complete(where) is None:
        return "no complete checkpoint is left"
    problems = [problem for info in complete for problem in verify(info.path)]
    if not any(info.path.name.removeprefix(".replaced-") == "final" for info in complete):
        return "final is gone"
    kept = {info.step for info in complete if info.path.name.startswith("step_")}
    if not kept >= set(KEPT):
        return f"of the kept steps {KEPT} only {sorted(kept)} are there"
    return "; ".join(problems)


def _wrong_after_resume(where: Path, again: list[Outcome]) -> str:
    for outcome in again:
        if outcome.error or outcome.signal:
            return f"resume failed: {outcome}"
        step, values = outcome.result
        if values != [float(step)]:
            return f"step {step} was loaded with weights {values}"
    left = {info.path.name for info in list_checkpoints(where) if not info.complete}
    hidden = {path.name for path in where.iterdir() if path.name.startswith((".tmp", ".deleted"))}
    if left or hidden:
        return f"left over after the next start: {sorted(left | hidden)}"
    return ""
