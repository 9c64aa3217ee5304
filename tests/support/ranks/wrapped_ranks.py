"""Scripts of one's own with strategies, in real ranks: bodies for `support.ranks.measured_ranks`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from support.ranks.measured_ranks import Job
from torchdeck.distributed.group.json_collectives import broadcast
from torchdeck.distributed.group.processes import (
    cleanup_distributed,
    get_local_rank,
    get_rank,
    setup_distributed,
)
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.strategies.ddp import with_settled_buckets
from torchdeck.distributed.wrapping import wrap_model_ddp, wrap_model_fsdp
from torchdeck.environment import DistributedConfig

WIDTH = 5


def small_model(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(WIDTH, 7), nn.Tanh(), nn.Linear(7, 3))


def first_block(model: nn.Module) -> list[nn.Module]:
    return [next(model.children())]


def batch_of(rank: int, number: int) -> Tensor:
    """Another one for each rank and number."""
    return torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(100 * rank + number))


def mean_gradient(world_size: int, numbers: int) -> list[float]:
    """Of the mean over the ranks of what the batches up to `numbers` add up to, in one process."""
    model = small_model()
    for rank in range(world_size):
        for number in range(numbers):
            (model(batch_of(rank, number)).square().mean() / world_size).backward()
    return flat(model)


def flat(model: nn.Module, what: str = "grad") -> list[float]:
    """All gradients or weights of the model, whole, one number after the other."""
    tensors = [p.grad if what == "grad" else p.detach() for p in model.parameters()]
    whole = [t.full_tensor() if isinstance(t, DTensor) else t for t in tensors if t is not None]
    return [float(value) for tensor in whole for value in tensor.flatten()]


def body(job: Job) -> Any:
    """What the job is named after."""
    bodies = (hand_written, by_one_call, refused, begun_alike, said_by_hand, used_by_one_rank)
    return {function.__name__: function for function in bodies}[job["body"]](job)


def hand_written(job: Job) -> dict[str, Any]:
    """Two microbatches under no_sync and one in sync; then three under no_sync, and synchronised at the end.

    Then a step, a checkpoint, another step, and the checkpoint loaded into a model made again.
    """
    with DistributedStrategy.from_config(job["config"]) as strategy:
        model = small_model()
        wrapped = strategy.wrap_model(model, first_block)
        optimizer = strategy.prepare_optimizer(wrapped, SGD(model.parameters(), lr=0.5, momentum=0.9))
        found: dict[str, Any] = {}
        for name in ("last", "afterwards"):
            optimizer.zero_grad()
            for number in range(3):
                with strategy.accumulate(wrapped, last=name == "last" and number == 2):
                    batch = strategy.to_device({"x": batch_of(strategy.rank, number)})["x"]
                    strategy.backward(wrapped(batch).square().mean())
            if name == "afterwards":
                strategy.sync_gradients(model)
            found[name] = flat(model)
        found["norm"] = strategy.clip_grad_norm(model, 0.01)
        strategy.optimizer_step(optimizer)
        found["stepped"] = flat(model, "weights")
        folder = [tempfile.mkdtemp() if strategy.is_main_process else None]
        if strategy.world_size > 1:
            folder = [broadcast(folder[0])]
        strategy.save(str(folder[0]), model, optimizer, step=1, extra={"note": "kept"})
        strategy.optimizer_step(optimizer)
        other = small_model(seed=1)
        strategy.wrap_model(other, first_block)
        again = SGD(other.parameters(), lr=0.1, momentum=0.9)
        loaded = strategy.load(str(folder[0]), other, again)
        found |= {"loaded": flat(other, "weights"), "step": loaded.step, "extra": loaded.extra}
        found["momentum"] = all("momentum_buffer" in state for state in again.state.values())
        return found


def by_one_call(job: Job) -> list[float]:
    """The gradient of a model wrapped by one of the functions; the group is there, or is not."""
    if job["joined"] == "by hand":
        rank, world_size = (int(os.environ.pop(name)) for name in ("RANK", "WORLD_SIZE"))
        file = f"file://{job['file']}"
        dist.init_process_group("gloo", init_method=file, rank=rank, world_size=world_size)
    elif job["joined"]:
        dist.init_process_group("gloo")
    model = small_model()
    if job["how"] == "ddp":
        wrapped = wrap_model_ddp(model, **job["options"])
    else:
        blocks = first_block if job.get("blocks") else None
        wrapped = wrap_model_fsdp(model, blocks=blocks, min_params=10, **job["options"])
    wrapped(batch_of(dist.get_rank(), 0)).square().mean().backward()
    return flat(model)


def refused(job: Job) -> str:
    """What is said of models that are not the same, or have nothing to train."""
    with DistributedStrategy.from_config(job["config"]) as strategy:
        model = small_model(seed=strategy.rank if job["differ"] == "weights" else 0)
        if job["differ"] == "shapes" and strategy.rank == 1:
            model[2] = nn.Linear(7, 4)
        model.requires_grad_(job["differ"] != "nothing")
        if job["differ"] == "trained" and strategy.rank == 1:
            model.requires_grad_(False)
        try:
            strategy.wrap_model(model, first_block)
        except RecipeError as error:
            return str(error)
        return ""


def begun_alike(job: Job) -> list[float]:
    """The first weights of a model that each rank has drawn for itself, once it is wrapped."""
    with DistributedStrategy.from_config(job["config"]) as strategy:
        model = small_model(seed=strategy.rank)
        strategy.wrap_model(model, first_block)
        weight = next(model.parameters())
        whole = weight.full_tensor() if isinstance(weight, DTensor) else weight
        return [float(value) for value in whole.detach().flatten()]


def said_by_hand(job: Job) -> dict[str, Any]:
    """No variable says which rank this is, nor where the others are: the script does.

    Then the same in a group that the script joined itself, and what is said of a rank that it is not.
    """
    rank, world_size, port = (int(os.environ.pop(name)) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    environment = DistributedConfig(rank, world_size, rank, world_size, master_port=port, timeout=60.0)
    strategy = DistributedStrategy.from_config({"strategy": "ddp"}, environment=environment)
    with strategy:
        strategy.setup()  # once more does nothing
        found: dict[str, Any] = {"sum": strategy.group.sum([rank + 1.0]), "during": which()}
    strategy.close()
    found |= {"after": which(), "left": not dist.is_initialized() and not strategy.is_set_up}
    os.environ.pop("LOCAL_RANK", None)  # of the process that started the ranks
    dist.init_process_group(init_method=f"file://{job['file']}", rank=rank, world_size=world_size)
    with DistributedStrategy.from_config({"strategy": "ddp"}) as strategy:
        found["joined"] = [strategy.rank, strategy.local_rank, *strategy.group.sum([rank + 1.0]), *which()]
    found["kept"] = dist.is_initialized() and setup_distributed().rank == rank
    try:
        DistributedStrategy.from_config({"strategy": "ddp"}, environment=DistributedConfig()).setup()
    except RecipeError as error:
        found["refused"] = str(error)
    cleanup_distributed()
    return found


def which() -> list[int]:
    return [get_rank(), get_local_rank()]


def used_by_one_rank(job: Job) -> list[list[float] | None]:
    """Gradients by parameter, synchronised by hand, of a model whose parts ranks use unevenly, or freeze."""
    with DistributedStrategy.from_config(job["config"]) as strategy:
        model = nn.ModuleList([nn.Linear(1, 1, bias=False) for _ in range(4)])
        model[3].requires_grad_(False)
        wrapped = strategy.wrap_model(model)
        used = model[:2] if strategy.rank == 0 else model[1:2]
        with strategy.no_sync(wrapped):
            strategy.backward(sum(part(torch.ones(1, 1)).sum() for part in used))
        strategy.sync_gradients(model)
        assert strategy.clip_grad_norm(model, None) is not None
        return [p.grad.flatten().tolist() if p.grad is not None else None for p in model.parameters()]


class Tied(nn.Module):
    """Layers, the lookup before them, which is declared last, and a head that has the lookup's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
        self.table = nn.Embedding(7, WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        return nn.functional.linear(self.layers(self.table(tokens)), self.table.weight)


def buckets(job: Job) -> dict[str, list[list[str]]]:
    """Names of the parameters in each of DDP's buckets: settled, in the first step and later; torch's own."""
    dist.init_process_group("gloo")
    make = partial(DistributedDataParallel, bucket_cap_mb=1e-4)
    settled, plain = (_buckets_by_step(wrap) for wrap in (partial(with_settled_buckets, make=make), make))
    return {"first": settled[0], "settled": settled[-1], "rebuilt": plain[-1]}


def _buckets_by_step(wrap: Callable[[nn.Module], nn.Module]) -> list[list[list[str]]]:
    model = Tied()
    names = {parameter.data_ptr(): name for name, parameter in model.named_parameters()}
    steps: list[list[list[str]]] = []

    def hook(state: None, bucket: Any) -> Any:
        steps[-1].append([names[parameter.data_ptr()] for parameter in bucket.parameters()])
        done: Any = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    hook.__annotations__.clear()  # at which DDP looks, and of which it knows no texts
    wrapped = wrap(model)
    wrapped.register_comm_hook(None, hook)  # type: ignore[operator]  # a DistributedDataParallel
    for _ in range(3):
        steps.append([])
        wrapped(torch.tensor([[1, 2]])).sum().backward()
    return steps
