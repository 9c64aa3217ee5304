"""What the ranks do in the tests of saving and loading; run by `checkpoint_ranks`."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from support import checkpoint_ranks as ranks
from support.forked_rank import Outcome
from torchdeck.distributed.checkpoints.choose import choose_checkpoint
from torchdeck.distributed.checkpoints.listing import list_checkpoints, newest_complete
from torchdeck.distributed.checkpoints.model_state import model_tensors, unwrap
from torchdeck.distributed.checkpoints.retention import Retention
from torchdeck.distributed.checkpoints.store import CheckpointError, CheckpointStore, TrainState
from torchdeck.distributed.checkpoints.verification import verify

STEPS = 3


class Net(nn.Module):
    """Small, but with what makes resuming hard: dropout, running statistics, tied and unused parameters."""

    def __init__(self, width: int = 10) -> None:
        super().__init__()
        self.embedding = nn.Embedding(13, width)
        self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.norm = nn.BatchNorm1d(width)
        self.dropout = nn.Dropout(0.25)
        self.unused = nn.Linear(3, 3)
        self.head = nn.Linear(width, 13, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = hidden + self.dropout(torch.relu(block(hidden)))
        logits: torch.Tensor = self.head(self.norm(hidden))
        return logits


def make(strategy: str, rank: ranks.Rank, seed: int = 0) -> TrainState:
    """Model and optimizer under a strategy."""
    torch.manual_seed(seed)
    net = Net()
    model: nn.Module = net
    if strategy == "ddp":
        model = nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)
    elif strategy in ("fsdp", "hsdp"):
        grid = (rank.world_size,) if strategy == "fsdp" else (rank.world_size // 2, 2)
        mesh = init_device_mesh("cpu", grid, mesh_dim_names=("replicate", "shard")[-len(grid) :])
        for block in net.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(net, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(100 * seed + rank.rank)
    random.seed(seed + rank.rank)
    return TrainState(model, [optimizer])


def inner(state: TrainState) -> Any:
    """The Net without what is around it."""
    return unwrap(state.model)


def train(state: TrainState, steps: int) -> list[str]:
    """Losses as exact hexadecimal texts; data from Python's and torch's generators."""
    losses = []
    for _ in range(steps):
        shift = random.randrange(13)  # noqa: S311 - data, not secrets
        tokens = (torch.randint(0, 13, (8,)) + shift) % 13
        loss = nn.functional.cross_entropy(state.model(tokens), tokens)
        state.optimizers[0].zero_grad()
        torch.autograd.backward(loss)
        state.optimizers[0].step()
        losses.append(float(loss.detach()).hex())
    return losses


def digest(tensors: dict[str, torch.Tensor], *, own: bool = False) -> str:
    """SHA-256 over the whole values (`own`: this rank's shards) of all tensors."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name]
        if isinstance(value, DTensor):
            value = value.to_local() if own else value.full_tensor()
        total.update(name.encode() + value.detach().contiguous().numpy().tobytes())
    return total.hexdigest()


def optimizer_digest(state: TrainState) -> str:
    names: dict[torch.Tensor, str] = {param: name for name, param in state.model.named_parameters()}
    flat = {
        f"{names[param]}.{key}": value
        for param, values in state.optimizers[0].state.items()
        for key, value in values.items()
    }
    return digest(flat, own=True)


def open_store(
    folder: Path, rank: ranks.Rank, strategy: str, *, keep_last: int = 3, attempt: int = 1
) -> CheckpointStore:
    return CheckpointStore(
        folder, Retention(keep_last), "test-run", attempt, rank.rank, rank.world_size, strategy, timeout=20.0
    )


def exact_resume(folder: Path, strategy: str, world_size: str, how: str) -> dict[str, Any]:
    """2n steps at once, and n, stop, resume in new processes, n.

    Saved in the background, training goes on while the checkpoint is written, and none of that may be in it.
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
        sentence = _refusal(lambda: store.save(state, 2))
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
        return _refusal(lambda: store.save(state, 1))

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
            return [_refusal(lambda: store.save(state, 2))]
        store.save_in_background(state, 2)
        return [_refusal(store.wait), _refusal(store.wait)]

    outcome = ranks.results(ranks.run_round(folder, 2, body))
    saved = Path(mount) / "saved"
    return {
        "ranks": outcome,
        "listed": sorted(path.name for path in saved.iterdir()),
        "problems": verify(saved / "step_00000001"),
    }


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
            _refusal(lambda: store.load(bad, state)),
            _refusal(lambda: store.load(good, wider)),
            _refusal(lambda: store.load(good, sgd)),
        ]
        unchanged = digest(model_tensors(state.model)) == before
        return [*refused, str(unchanged), str(store.load(good, state).step)]

    sentences: list[list[str]] = ranks.results(ranks.run_round(folder, 2, body))
    return sentences


def _refusal(action: Callable[[], object]) -> str:
    try:
        action()
    except CheckpointError as error:
        return str(error)
    return ""


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
        return _refusal(lambda: store.load(here(rank) / "step_00000002", state))

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


_WRITES = ("open", "os.mkdir", "os.rename", "os.truncate")


class FaultPoint:
    """Counts what this process does to files in `folder`; kills it before the `at`th (0: only counts)."""

    def __init__(self, folder: Path, at: int = 0) -> None:
        self.count = 0
        self._at = at
        self._folder = str(folder)
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        # rmtree names what it removes relative to an open folder, so removals count wherever they are
        removal = event in ("os.remove", "os.rmdir")
        named = (str(item) for item in arguments if isinstance(item, (str, os.PathLike)))
        if not removal and not (event in _WRITES and any(self._folder in name for name in named)):
            return
        self.count += 1
        if self.count == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


KEPT = (2, 3)
"""In the killed saves: a multiple of `keep_every`, and the best."""
_LOSSES = {2: 4.0, 3: 1.0, 5: 3.0, 7: 2.0}


def _selective(folder: Path, rank: ranks.Rank, attempt: int = 1) -> CheckpointStore:
    """Keeps the newest, every second step and the best by loss."""
    retention = Retention(1, keep_every=2, keep_best=1, best_metric="loss")
    return CheckpointStore(
        folder, retention, "test-run", attempt, rank.rank, rank.world_size, "x", timeout=20.0
    )


def _fill(state: TrainState, step: int) -> None:
    with torch.no_grad():
        for param in state.model.parameters():
            param.fill_(float(step))


def killed_in_saves(folder: Path, world_size: str, seed: str, count: str, how: str) -> dict[str, Any]:
    """Kill one rank at a moment of saves that rotate and replace; then resume. `count` moments, or `all`.

    In the background, the weights change as soon as the call is back.
    """
    world = int(world_size)
    template = folder / "template"

    def prepare(rank: ranks.Rank) -> None:
        state = make("fsdp" if world > 1 else "single", rank)
        train(state, 1)
        store = _selective(template, rank)
        for step in (2, 3, 5):
            _fill(state, step)
            store.save(state, step, metrics={"loss": _LOSSES[step]})
        store.save(state, 5, final=True)

    def saves(where: Path, victim: int, at: int) -> Callable[[ranks.Rank], Any]:
        def body(rank: ranks.Rank) -> int:
            state = make("fsdp" if world > 1 else "single", rank)
            train(state, 1)
            store = _selective(where, rank)
            fault = FaultPoint(where, at if rank.rank == victim else 0)
            try:
                # rotates step 5 out, replaces a step, replaces final
                for step, final in ((7, False), (7, False), (7, True)):
                    _fill(state, step)
                    if final or how != "background":
                        store.save(state, step, final=final, metrics={"loss": _LOSSES[step]})
                    else:
                        store.save_in_background(state, step, metrics={"loss": _LOSSES[step]})
                        _fill(state, -1)
            except CheckpointError:
                pass  # the other rank was killed
            return fault.count

        return body

    def resume(where: Path) -> Callable[[ranks.Rank], Any]:
        def body(rank: ranks.Rank) -> list[Any]:
            state = make("fsdp" if world > 1 else "single", rank, seed=3)
            chosen = choose_checkpoint(where, "auto")
            if world > 1:
                torch.distributed.barrier()
            store = _selective(where, rank, attempt=2)
            loaded = store.load(Path(str(chosen.folder)), state)
            bias = inner(state).blocks[0].bias
            values = set((bias.full_tensor() if isinstance(bias, DTensor) else bias).tolist())
            store.save(state, 9)
            return [loaded.step, sorted(values)]

        return body

    ranks.results(ranks.run_round(folder, world, prepare))
    counted = folder / "counted"
    shutil.copytree(template, counted)
    totals = ranks.results(ranks.run_round(folder, world, saves(counted, -1, 0)))
    points = [(victim, at) for victim, total in enumerate(totals) for at in range(1, total + 1)]
    if count != "all":
        sampler = random.Random(int(seed))  # noqa: S311 - a fixed sample
        points = sorted(sampler.sample(points, int(count)))
    failures = []
    for victim, at in points:
        where = folder / f"killed-{victim}-{at}"
        shutil.copytree(template, where)
        ended = ranks.run_round(folder, world, saves(where, victim, at))
        wrong = _wrong_after_kill(where, ended, victim)
        if not wrong:
            again = ranks.run_round(folder, world, resume(where))
            wrong = _wrong_after_resume(where, again)
        if wrong:
            failures.append([victim, at, wrong])
        shutil.rmtree(where)
    return {"points": len(points), "totals": totals, "failures": failures}


def killed_on_own_disks(folder: Path, seed: str, count: str) -> dict[str, Any]:
    """Kill one of two ranks that share no disk at a moment of a save; then go on as the first agent would.

    What the first node takes for complete has to be so on both.
    """
    template = folder / "template"

    def here(where: Path, rank: ranks.Rank) -> Path:
        return where / f"node-{rank.rank}"

    def save(where: Path, step: int, victim: int = -1, at: int = 0) -> Callable[[ranks.Rank], Any]:
        def body(rank: ranks.Rank) -> int:
            state = make("fsdp", rank)
            train(state, 1)
            _fill(state, step)
            store = open_store(here(where, rank), rank, "fsdp", keep_last=1)
            fault = FaultPoint(where, at if rank.rank == victim else 0)
            _refusal(lambda: store.save(state, step))
            return fault.count

        return body

    def resume(where: Path) -> Callable[[ranks.Rank], Any]:
        def body(rank: ranks.Rank) -> list[Any]:
            state = make("fsdp", rank, seed=3)
            chosen = choose_checkpoint(where / "node-0", "auto").folder
            torch.distributed.barrier()
            store = open_store(here(where, rank), rank, "fsdp", keep_last=1, attempt=2)
            loaded = store.load(here(where, rank) / str(chosen and chosen.name), state)
            bias = inner(state).blocks[0].bias
            torch.distributed.barrier()
            return [loaded.step, sorted(set(bias.full_tensor().tolist()))]

        return body

    ranks.results(ranks.run_round(folder, 2, save(template, 1)))
    shutil.copytree(template, folder / "counted")
    totals = ranks.results(ranks.run_round(folder, 2, save(folder / "counted", 2)))
    points = [(victim, at) for victim, total in enumerate(totals) for at in range(1, total + 1)]
    if count != "all":
        # the last moments of each are those of the manifests
        sampler = random.Random(int(seed))  # noqa: S311 - a fixed sample
        late = [point for point in points if totals[point[0]] - point[1] < 24]
        points = sorted(sampler.sample(late, int(count)))
    outcomes = []
    for victim, at in points:
        where = folder / f"killed-{victim}-{at}"
        shutil.copytree(template, where)
        ended = ranks.run_round(folder, 2, save(where, 2, victim, at))
        again = ranks.run_round(folder, 2, resume(where))
        outcomes.append([victim, at, ended[victim].signal, [one.result or one.error for one in again]])
        shutil.rmtree(where)
    return {"totals": totals, "outcomes": outcomes}


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
