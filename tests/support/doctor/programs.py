"""Programs in which one rank meets a fault: scripts, trainers of others, and a recipe."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

from support.doctor.faults import Fault

SHARED = '''
import asyncio, ctypes, fcntl, json, multiprocessing, os, queue, re, select, signal, socket, subprocess, sys
import threading, time, urllib.request
from concurrent.futures import Future, ThreadPoolExecutor
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

disk = {disk!r}

class Slow(Dataset):
    def __len__(self): return 8
    def __getitem__(self, index):
        time.sleep(10**6)

class Working(Dataset):
    def __len__(self): return 64
    def __getitem__(self, index):
        until = time.monotonic() + 0.6
        while time.monotonic() < until:
            sum(range(1000))
        return torch.ones(4)

def fault():
{body}

def after(step):
    """Every rank calls it in each step, from 1 on."""
    global rank, world, flags, first, x
    if step == 1:
        rank, world = dist.get_rank(), dist.get_world_size()
        flags, x = [], torch.ones(1024)
        first = dist.new_group(list(range(world)))
    if step {when} and ({everywhere} or rank == {culprit}):
        with open({began!r}, "w") as file:
            file.write(str(time.time()))
        fault()
'''

SCRIPT = """
def step(number):
    time.sleep(0.02)
    dist.all_reduce(x)

if __name__ == "__main__":
    dist.init_process_group("gloo")
    for number in range(1, {steps} + 1):
        after(number)
        step(number)
        {report}
    dist.destroy_process_group()
"""
REPORTS = {"silent": "pass", "prints": 'rank or print(f"step {number} loss: 0.5", flush=True)'}
"""Program → what it reports of its progress."""

HUGGING_FACE = """
from transformers import Trainer, TrainerCallback, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
    def forward(self, x, labels=None):
        return {{"loss": (self.linear(x) ** 2).mean()}}

class Data(torch.utils.data.Dataset):
    def __len__(self): return 100_000
    def __getitem__(self, index): return {{"x": torch.ones(4), "labels": torch.ones(1)}}

class Steps(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        time.sleep(0.02)
        after(state.global_step)

arguments = TrainingArguments(output_dir="out", max_steps={steps}, logging_steps=5, save_strategy="no",
                              report_to="none", use_cpu=True, per_device_train_batch_size=2)
Trainer(model=Model(), args=arguments, train_dataset=Data(), callbacks=[Steps()]).train()
"""

LIGHTNING = """
import lightning.pytorch as pl

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        time.sleep(0.02)
        after(index + 1)
        return (self.linear(batch) ** 2).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

if __name__ == "__main__":
    data = torch.utils.data.DataLoader(torch.ones(100_000, 4), batch_size=2)
    trainer = pl.Trainer(accelerator="cpu", devices={ranks}, strategy="ddp", max_steps={steps}, logger=False,
                         enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(Model(), data)
"""

RECIPE = """
_loss, _calls = loss, []

def loss(model, batch):
    if torch.is_grad_enabled():
        _calls.append(None)
        after(len(_calls))
    return _loss(model, batch)
"""
"""Appended, after the shared part, to the recipe that trains at a given pace."""

TRAINERS = {"hugging-face": HUGGING_FACE, "lightning": LIGHTNING}
PROGRAMS = (*REPORTS, *TRAINERS, "recipe")
ENDLESS = 10**6
STEP = {"silent": 40, "prints": 40}
"""Step of the fault; 20 in other programs."""


class Place(NamedTuple):
    """What a program needs to know of the machine."""

    began: str
    """File in which the culprit writes the time of the fault, in seconds since the epoch."""
    disk: str = ""
    """Folder that a file system is mounted at, for faults of disks."""


def program(
    name: str, fault: Fault, place: Place, *, culprit: int = 1, ranks: int = 2, steps: int = ENDLESS,
    always: bool = False,
) -> str:  # fmt: skip
    """Return the program's text, or of a recipe what to append to it.

    Args:
        name: one of `PROGRAMS`.
        fault: what the culprit does.
        place: the paths.
        culprit: the rank, unless all ranks do it.
        ranks: number of ranks.
        steps: the step after which the program ends.
        always: it does it in every step.
    """
    shared = SHARED.format(
        body=textwrap.indent(fault.body, "    "),
        everywhere=fault.everywhere,
        culprit=culprit,
        when=">= 1" if always else f"== {STEP.get(name, 20)}",
        **place._asdict(),
    )
    if name == "recipe":
        return shared + RECIPE
    if name in REPORTS:
        return shared + SCRIPT.format(steps=steps, report=REPORTS[name])
    return shared + TRAINERS[name].format(steps=steps, ranks=ranks)
