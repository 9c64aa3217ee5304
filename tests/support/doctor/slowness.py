"""Slow ranks of a distributed training: one is slowed in a known way, by a known share of each step."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

SCRIPT = """
import os, subprocess, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

STEP = 0.05

class Rows(Dataset):
    def __len__(self):
        return 10**6
    def __getitem__(self, index):
        {data}
        return torch.ones(64)

def augment():
    {compute}

def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
    wrapped = {wrapped}
    for row in DataLoader(Rows()):
        time.sleep(STEP)
        augment()
        wrapped(row).sum().backward()
        {reduce}

rank = int(os.environ["RANK"])
{begin}
main()
"""
BY_HAND = ("model", "[dist.all_reduce(p.grad) for p in model.parameters()]")
BY_DDP = ("DistributedDataParallel(model, bucket_cap_mb=0.02)", "pass")
"""Gradients in several buckets."""
OWN_CORES = """
cores = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, {cores[rank % len(cores)]})
"""


class Slowness(NamedTuple):
    """One way to be slow."""

    name: str
    data: str
    compute: str
    share: float
    """Share of the step that the others wait."""
    differs: str
    """What is to be named on the slow rank."""
    begin: str = ""
    """Statements of every rank before it trains."""


SLOW = (
    Slowness("data", "time.sleep(0.05 * (rank == 1))", "pass", 0.45, "loading data"),
    Slowness("compute", "pass", "time.sleep(0.05 * (rank == 1))", 0.45, "augment"),
)
BUSY_NEIGHBOUR = Slowness(
    "busy neighbour",
    "pass",
    "[torch.ones(256, 256) @ torch.ones(256, 256) for _ in range(60)]",
    0.35,
    "stolen by other processes",
    OWN_CORES + "spin = [sys.executable, '-c', 'while True: pass']\n"
    "rank == 1 and [subprocess.Popen(spin) for _ in range(3)]",
)
HEALTHY = Slowness("healthy", "pass", "pass", 0.0, "")


def program(slowness: Slowness, kind: tuple[str, str]) -> str:
    """The script's text."""
    wrapped, reduce = kind
    return SCRIPT.format(
        data=slowness.data,
        compute=slowness.compute,
        wrapped=wrapped,
        reduce=reduce,
        begin=textwrap.dedent(slowness.begin),
    )
