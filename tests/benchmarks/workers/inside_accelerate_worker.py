"""Trains by a loop on Accelerate in turns with and without what Torchdeck adds to it.

Arguments: turns, steps per turn. Started as a rank, so that it is there. Prints CPU seconds of the main
thread per turn, as JSON: what else the machine does hardly changes them.
"""

import json
import sys
import time

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.workers.inside_hooks import Hooks, in_turn

TURNS, STEPS = int(sys.argv[1]), int(sys.argv[2])


def turn(*, callback: bool) -> float:
    hooks.switch(on=callback)
    layer = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.ones(STEPS, 4)))
    layer, optimizer, loader = accelerator.prepare(layer, optimizer, loader)
    begun = time.thread_time()
    for step, (rows,) in enumerate(loader):
        loss = layer(rows).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.log({"loss": loss.item()}, step=step)
    return time.thread_time() - begun


torch.set_num_threads(1)
hooks = Hooks()
accelerator = Accelerator(cpu=True)
turn(callback=True)
print("SECONDS", json.dumps(in_turn(turn, TURNS)))
