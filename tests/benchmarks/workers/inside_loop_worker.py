"""Trains by a loop of its own in turns with and without Torchdeck's hook that counts optimizer steps.

Arguments: turns, steps per turn. Started as a rank, so that the hook is there. Prints CPU seconds of the main
thread per turn, as JSON: what else the machine does hardly changes them.
"""

import json
import sys
import time

import torch

from benchmarks.workers.inside_hooks import Hooks, in_turn

TURNS, STEPS = int(sys.argv[1]), int(sys.argv[2])


def turn(*, callback: bool) -> float:
    hooks.switch(on=callback)
    layer = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    begun = time.thread_time()
    for _ in range(STEPS):
        layer(torch.ones(1, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return time.thread_time() - begun


torch.set_num_threads(1)
hooks = Hooks()
turn(callback=True)
print("SECONDS", json.dumps(in_turn(turn, TURNS)))
