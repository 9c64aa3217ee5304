"""A recipe file to be traced by a process of its own, well-behaved or not."""

from __future__ import annotations

from pathlib import Path

from support.values.run_files import load, write
from torchdeck.config.schema import RunConfig
from torchdeck.tracing.request import WantedTrace
from torchdeck.trust.trust_list import TrustList

RECIPE = """\
import ctypes, os, subprocess, sys, time
import torch
from torch import nn
from torch.utils.data import TensorDataset

print("hello from the top")

def build_model(options):
    print("not an answer", flush=True)
    os.write(1, b'{"profile": 5}\\n')
    return nn.Linear(4, options.get("width", 3))

def build_data(options, split):
    return TensorDataset(torch.randn(6, 4))

def loss(model, batch):
    return model(batch[0]).mean()
"""
RUN = '[run]\nrecipe = "model.py"\n[model]\nwidth = 3\n[data]\nfile = "data.bin"\n[training]\nsteps = 1\n'
FEW = (WantedTrace(2),)
_NEVER = 600
"""Seconds."""


def trusted(folder: Path, home: Path, *lines: str) -> RunConfig:
    """A run in `folder`, trusted, of the recipe with `lines` first in its build_model."""
    write_recipe(folder, *lines)
    home.mkdir(mode=0o700, exist_ok=True)
    TrustList(home).add(folder)
    return load(folder, RUN)


def write_recipe(folder: Path, *lines: str) -> None:
    """The recipe's file, with `lines` first in its build_model."""
    head = "def build_model(options):"
    write(folder, RECIPE.replace(head, "\n    ".join([head, *lines])), "model.py")


def hanging(child: Path) -> tuple[str, ...]:
    """Lines that start a process, write its number to `child`, and never return."""
    return (
        f'started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep({_NEVER})"])',
        f'open({str(child)!r}, "w").write(str(started.pid))',
        f"time.sleep({_NEVER})",
    )


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is not just waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
