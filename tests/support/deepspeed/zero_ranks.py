"""What real ranks under DeepSpeed ZeRO hold: `python -m support.deepspeed.zero_ranks IN OUT`.

IN is JSON: {"world_size": N, "cases": [case]}; OUT gets [[held of each rank] for each case]. What is held is
read from storages, each counted once, at the moment an optimizer step begins and after it.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from support.ranks.checkpoint_ranks import Rank, results, run_round

CASES_A_ROUND = 12
"""So many end well within the time that a round may take."""

LATE_IMPORTS = ("torch._dynamo", "torch._inductor.compile_fx", "deepspeed.runtime.zero.stage3")
"""What each rank's first step would import by itself, for seconds."""
SCALARS = 128
"""Bytes of norms and flags: where less is unnamed, nothing is waited for."""
SETTLE_SECONDS = 2.0

Storages = dict[int, int]
"""Bytes of each storage by its address."""


class Scaled(nn.Module):
    """Adds its weights to what it is given: a module of one parameter of any shape."""

    def __init__(self, shape: list[int], *, trainable: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full(shape, 0.1), requires_grad=trainable)

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.weight.float() * x).sum()


def run_case(case: dict[str, Any]) -> dict[str, Any]:
    """Two optimizer steps; what this rank holds before and after the second."""
    before = _alive()
    frozen = case["frozen"]
    model = nn.Sequential(*(Scaled(s, trainable=i not in frozen) for i, s in enumerate(case["shapes"])))
    engine, *_ = importlib.import_module("deepspeed").initialize(
        model=model, optimizer=make_optimizer(model, case), config=_config(case)
    )
    held: dict[str, Any] = {}
    microbatches = 2 * case["accumulation"]
    for microbatch in range(microbatches):
        engine.backward(engine(torch.ones(())))
        if microbatch == microbatches - 1:
            held["before"] = held_by(engine, before)
        engine.step()
    held["after"] = held_by(engine, before)
    engine.destroy()
    return held


def make_optimizer(model: nn.Module, case: dict[str, Any]) -> torch.optim.Optimizer:
    """The case's, its vectors in a group of their own where it says so."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [trainable]
    if case["vectors_apart"]:
        groups = [[p for p in trainable if p.dim() >= 2], [p for p in trainable if p.dim() < 2]]
    members = [{"params": group} for group in groups if group]
    if case["optimizer"] == "sgd":
        return torch.optim.SGD(members, lr=1e-3, momentum=0.9)
    return torch.optim.AdamW(members, lr=1e-3, fused=case.get("fused", False))


def _config(case: dict[str, Any]) -> dict[str, Any]:
    zero = {
        "stage": case["stage"],
        "reduce_bucket_size": case["bucket"],
        "stage3_param_persistence_threshold": case["persistence"],
        "sub_group_size": case["sub_group"],
    }
    if case["offload"]:
        zero["offload_optimizer"] = {"device": "cpu"}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": case["accumulation"],
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,  # its own one is compiled at the first use
        "zero_optimization": zero,
        "bf16": {"enabled": case["bf16"]},
    }


def held_by(engine: Any, before: Storages) -> dict[str, int]:
    """Bytes by part, each storage in the first part that names it; `rest` is what no part names."""
    zero, parameters = engine.optimizer, list(engine.module.parameters())
    weights = [
        getattr(zero, "single_partition_of_fp32_groups", []),
        getattr(zero, "fp32_partitioned_groups_flat", []),
    ]
    masters = list(_tensors(weights))
    names = {
        "parameters": ["bit16_groups_flat", "lp_param_buffer"],
        "gradients": ["averaged_gradients", "grad_partitions_flat_buffer", "accumulated_grads_in_cpu"],
        "optimizer": [],
        "buffers": [
            "param_buffer_of_bit16_for_cpu_offload_groups",
            "temp_grad_buffer_for_cpu_offload",
            "temp_grad_buffer_for_gpu_offload",
        ],
    }
    more: dict[str, Any] = {
        "parameters": [[p.data, getattr(p, "ds_tensor", None)] for p in parameters],
        "gradients": [p.grad for p in (*parameters, *masters)],
        "optimizer": [masters, list(zero.optimizer.state.values())],
        "buffers": [bucket.buffer for bucket in zero.ipg_buckets.values()],
    }
    seen: Storages = {}
    held = {}
    for part, attributes in names.items():
        found = _storages(_tensors([more[part], [getattr(zero, name, None) for name in attributes]]))
        held[part] = sum(size for address, size in found.items() if address not in seen)
        seen |= found
    held["rest"] = _unnamed({*seen, *before})
    return held


def _unnamed(known: set[int]) -> int:
    """Bytes of other storages. A thread of gloo may hold the last bucket a moment longer: waits for it."""
    limit = time.monotonic() + SETTLE_SECONDS
    least = None
    while least is None or (least > SCALARS and time.monotonic() < limit):
        found = sum(size for address, size in _alive().items() if address not in known)
        least = found if least is None else min(least, found)
    return least


def _alive() -> Storages:
    gc.collect()
    tensors = [found for found in gc.get_objects() if issubclass(type(found), Tensor)]
    return _storages([*tensors, *(t.grad for t in tensors if t.is_leaf and t.grad is not None)])


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _storages(tensors: Iterable[Tensor]) -> Storages:
    found = (tensor.untyped_storage() for tensor in tensors)
    return {storage.data_ptr(): storage.nbytes() for storage in found if storage.data_ptr()}


def _prepare() -> None:
    """Imports once what the forked ranks use, and leaves it out of every search for tensors."""
    deepspeed = importlib.import_module("deepspeed")
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled; gloo alone does
    for name in LATE_IMPORTS:
        importlib.import_module(name)
    logging.disable(logging.WARNING)
    gc.collect()
    gc.freeze()


def run_cases(
    rank: Rank, cases: list[dict[str, Any]], folder: Path, run: Callable[[dict[str, Any]], Any]
) -> list[Any]:
    """`run` of each case, in a rank that DeepSpeed takes for its own."""
    os.environ |= {"RANK": str(rank.rank), "LOCAL_RANK": str(rank.rank), "WORLD_SIZE": str(rank.world_size)}
    if rank.world_size == 1:
        meeting = f"file://{folder}/rendezvous-{os.getpid()}"
        dist.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
    return [run(case) for case in cases]


def main(run: Callable[[dict[str, Any]], Any], a_round: int = CASES_A_ROUND) -> None:
    """Reads the cases, runs `a_round` of them in each round of forked ranks, writes what `run` returned."""
    request, answer = (Path(argument) for argument in sys.argv[1:])
    wanted = json.loads(request.read_text())
    _prepare()
    cases, held = wanted["cases"], []
    for start in range(0, len(cases), a_round):
        chosen = cases[start : start + a_round]
        body = functools.partial(run_cases, cases=chosen, folder=answer.parent, run=run)
        held += list(zip(*results(run_round(answer.parent, wanted["world_size"], body)), strict=True))
    answer.write_text(json.dumps(held))


if __name__ == "__main__":
    main(run_case)
