"""Scripts of the examples, and the ways in which they are launched. Each rank writes what it saw as JSON."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.ranks.torch_process import TorchProcess
from support.system.free_port import free_port

LIMIT = 150.0

PLANNED = """
import json, os, sys
from torchdeck.compat.batch_plans import DistributedConfig, shard_batch_plan
from torchdeck.data import load_batch_plan

config = DistributedConfig.from_env()
plan = shard_batch_plan(load_batch_plan("batch_plan"), config)
ids = [int(sample) for _, _, microbatch in plan.iter_from(0, 0) for sample in microbatch.sample_ids]
with open(f"saw_{config.rank}.json", "w") as file:
    json.dump({"place": [config.rank, config.world_size, config.local_rank], "ids": ids}, file)
"""
"""Reads its shard of batch_plan/."""

WITH_OPTIONS = """
import argparse, json, os
import torch
from torch import nn
from torchdeck.compat.ddp_fsdp import (
    cleanup_distributed, is_main_process, setup_distributed, wrap_model_ddp, wrap_model_fsdp
)

parser = argparse.ArgumentParser()
parser.add_argument("--dataset_name")
parser.add_argument("--batch_size", type=int, default=8)
parser.add_argument("--distributed", action="store_true")
parser.add_argument("--use_ddp", action="store_true")
parser.add_argument("--use_fsdp", action="store_true")
parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
parser.add_argument("--grad_clip", type=float, default=1.0)
args = parser.parse_args()

rank, world_size, local_rank = setup_distributed()
torch.manual_seed(0)
model = nn.Linear(4, 2)
if args.use_fsdp:
    model = wrap_model_fsdp(model)
elif world_size > 1:
    model = wrap_model_ddp(model, local_rank)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2 * args.gradient_accumulation_steps):
    x = torch.randn(args.batch_size, 4, generator=torch.Generator().manual_seed(100 * step + rank))
    (model(x).square().mean() / args.gradient_accumulation_steps).backward()
    if (step + 1) % args.gradient_accumulation_steps == 0:
        if args.grad_clip > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.grad_clip)
        optimizer.step()
        optimizer.zero_grad()
whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
with open(f"saw_{rank}.json", "w") as file:
    json.dump({
        "place": [rank, world_size, local_rank],
        "weights": [number for tensor in whole for number in tensor.detach().flatten().tolist()],
        "master": [os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")],
    }, file)
if world_size > 1:
    torch.distributed.barrier()
cleanup_distributed()
"""
"""The training script with its options."""

WITH_OBJECTS = """
import json
import torch
import torchdeck.compat.object_api as cx

cx.distributed.init()
torch.manual_seed(cx.distributed.get_rank())
model = cx.SequentialModel()
model.add(cx.LinearModule(4, 2))
ddp = cx.distributed.DistributedDataParallel(model, cx.distributed.DDPConfig())
ddp.backward(torch.ones_like(ddp.forward(torch.full((3, 4), float(ddp.get_rank())))))
synced = [gradient.flatten().tolist() for gradient in ddp.sync_gradients()]
place = [ddp.get_rank(), ddp.get_world_size(), cx.distributed.get_local_rank()]
with open(f"saw_{ddp.get_rank()}.json", "w") as file:
    json.dump({"place": place, "synced": synced}, file)
torch.distributed.barrier()
cx.distributed.finalize()
"""
"""One forward and backward pass; the gradient of a weight is three times the mean of the ranks."""


def saw(folder: Path, world_size: int) -> list[dict[str, Any]]:
    """Return what each rank wrote."""
    return [json.loads((folder / f"saw_{rank}.json").read_text()) for rank in range(world_size)]


def by_hand(folder: Path, launches: Sequence[Mapping[str, object]], *arguments: str) -> None:
    """Run `python train.py` with each of these sets of variables, all at the same time."""
    port = free_port()
    processes = [
        TorchProcess(
            [str(folder / "train.py"), *arguments],
            env=_environment({"MASTER_PORT": port, **variables}),
            cwd=folder,
        )
        for variables in launches
    ]
    _finish(processes)


def by_torchrun(folder: Path, *launches: Sequence[str]) -> None:
    """Run torchrun with each of these lists of arguments, all at the same time."""
    environment = _environment({"PET_MASTER_PORT": free_port()})
    _finish(
        [
            TorchProcess(["-m", "torch.distributed.run", *arguments], env=environment, cwd=folder)
            for arguments in launches
        ]
    )


SCRIPT = """#!/bin/bash
export MASTER_ADDR=${MASTER_ADDR:-"node0"}
export MASTER_PORT=${MASTER_PORT:-29500}

torchrun \\
    --nproc_per_node=1 \\
    --nnodes=$NUM_NODES \\
    --node_rank=$NODE_RANK \\
    --master_addr=$MASTER_ADDR \\
    --master_port=$MASTER_PORT \\
    train.py $@
"""
"""Starts one rank on each node; the same on all of them."""


def by_script(folder: Path, launches: Sequence[Mapping[str, object]], *arguments: str) -> None:
    """Run SCRIPT with each of these sets of variables, all at the same time."""
    (folder / "launch.sh").write_text(SCRIPT)
    torchrun = folder / "bin" / "torchrun"
    torchrun.parent.mkdir()
    torchrun.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m torch.distributed.run "$@"\n')
    torchrun.chmod(0o755)
    path = os.pathsep.join([str(torchrun.parent), os.environ["PATH"]])
    said = [folder / f"said_{number}.log" for number in range(len(launches))]
    processes = []
    for variables, log in zip(launches, said, strict=True):
        with log.open("w") as file:
            processes.append(
                subprocess.Popen(
                    ["bash", "launch.sh", *arguments],
                    env=_environment({"PATH": path, **variables}),
                    cwd=folder,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
    deadline = time.monotonic() + LIMIT
    try:
        codes = [process.wait(max(0.0, deadline - time.monotonic())) for process in processes]
        assert not any(codes), "\n".join(log.read_text() for log in said)[-4000:]
    finally:
        for process in processes:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a session of its own: torchrun ends its ranks at SIGTERM."""
    for number, seconds in ((signal.SIGTERM, 20.0), (signal.SIGKILL, 5.0)):
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, number)
                process.wait(seconds)


def _environment(variables: Mapping[str, object]) -> dict[str, str]:
    launcher = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    kept = {name: value for name, value in os.environ.items() if name not in launcher}
    said = {name: str(value) for name, value in variables.items()}
    return {
        **kept,
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join(sys.path),
        **said,
    }


def _finish(processes: Sequence[TorchProcess]) -> None:
    deadline = time.monotonic() + LIMIT
    try:
        said = [process.communicate(max(0.0, deadline - time.monotonic())) for process in processes]
        failed = [error for process, (_, error) in zip(processes, said, strict=True) if process.returncode]
        assert not failed, "\n".join(failed)[-4000:]
    finally:
        for process in processes:
            process.kill()
