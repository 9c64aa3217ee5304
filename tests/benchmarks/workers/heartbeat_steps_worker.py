"""A rank that measures its training steps, and the heartbeat beside them, next to further threads.

Arguments: number of Python threads, seconds of a block of steps, number of blocks, and `beats` or `plain` (no
heartbeat). Prints, for each block, the mean seconds of processor time of a step and of a small collective, of
all the process's threads, and the heartbeat's processor time as a share of the time: what else the machine
does changes them little.
"""

import json
import sys
import threading
import time

import torch
import torch.distributed as dist

from torchdeck.environment import rank_layout
from torchdeck.telemetry.doctor.arrivals import ArrivalReports
from torchdeck.telemetry.doctor.rank_heartbeat import RankHeartbeatThread

COLLECTIVES, SMALL, WARM_UP, DEPTH = 2100, 500, 50, 20
WIDTH, LAYERS = 256, 8
NEVER = 1e9
"""Seconds until a report on arrivals; its cost is measured on its own."""

ends = threading.Event()


def deep(depth: int) -> None:
    """Wait at the end of a deep stack, as threads of real programs do."""
    if depth:
        deep(depth - 1)
    else:
        ends.wait()


class Steps:
    """Steps of a small model whose gradients three groups reduce."""

    def __init__(self) -> None:
        ranks = list(range(dist.get_world_size()))
        self._groups = [dist.group.WORLD, dist.new_group(ranks), dist.new_group(ranks)]
        self._model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
        self._input = torch.ones(WIDTH, WIDTH)
        self._few = torch.zeros(16)
        for number in range(COLLECTIVES):  # the flight recorder is full then
            dist.all_reduce(self._input, op=dist.ReduceOp.MAX, group=self._groups[number % 3])

    def run(self, count: int) -> float:
        """Return the mean seconds of processor time per step."""
        dist.barrier()
        begun = time.process_time()
        for _ in range(count):
            self._model(self._input).sum().backward()
            for group in self._groups:
                dist.all_reduce(self._model[0].weight.grad, group=group)
            self._model.zero_grad()
        dist.barrier()
        return (time.process_time() - begun) / count

    def collective(self) -> float:
        """Return the mean seconds of processor time of a collective of a few numbers."""
        dist.barrier()
        begun = time.process_time()
        for number in range(SMALL):
            dist.all_reduce(self._few, group=self._groups[number % 3])
        return (time.process_time() - begun) / SMALL

    def count_for(self, seconds: float) -> int:
        """Return how many steps take so long, the same on all ranks."""
        self.run(WARM_UP)
        begun = time.perf_counter()
        self.run(WARM_UP)
        slowest = torch.tensor([(time.perf_counter() - begun) / WARM_UP])
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        return max(1, int(seconds / slowest.item()))


def beating(steps: Steps, count: int, depth: int) -> float:
    """Return the share of the time that a heartbeat uses a processor, beside steps far down in the stack."""
    if depth:
        return beating(steps, count, depth - 1)
    layout = rank_layout()
    assert layout is not None
    thread = RankHeartbeatThread(layout, ArrivalReports(layout.arrivals, period=NEVER))
    thread.start()
    assert thread.ident is not None
    clock = time.pthread_getcpuclockid(thread.ident)
    try:
        begun = time.perf_counter()
        steps.run(count)
        return time.clock_gettime(clock) / (time.perf_counter() - begun)
    finally:
        thread.end()


def main(threads: int, seconds: float, blocks: int, *, beats: bool) -> None:
    dist.init_process_group("gloo")
    for _ in range(threads - 2):  # the main thread and the heartbeat are two
        threading.Thread(target=deep, args=(DEPTH,), daemon=True).start()
    steps = Steps()
    count = steps.count_for(seconds)
    found: dict[str, list[float]] = {"steps": [], "collectives": [], "heartbeat": []}
    for _ in range(blocks):
        found["collectives"] += [steps.collective() for _ in range(blocks)]
        found["steps"].append(steps.run(count))
        if beats:
            found["heartbeat"].append(beating(steps, count, DEPTH))
    if dist.get_rank() == 0:
        print("SECONDS", json.dumps(found), flush=True)
    ends.set()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), beats=sys.argv[4] == "beats")
