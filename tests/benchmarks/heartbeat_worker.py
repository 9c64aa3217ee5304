"""A rank that fills the flight recorder, then writes heartbeats and reports on its arrivals at collectives.

Prints the CPU seconds per second of the heartbeats, and of both.
"""

import json
import statistics
import time

import torch
import torch.distributed as dist

from torchdeck.environment import rank_layout
from torchdeck.telemetry.doctor.arrivals import ArrivalReports, affordable
from torchdeck.telemetry.doctor.flight_recorder import whole
from torchdeck.telemetry.doctor.rank_heartbeat import RankHeartbeatThread

COLLECTIVES, BEATS, REPORTS, DEPTH = 2100, 200, 20, 40

dist.init_process_group("gloo")
ranks = list(range(dist.get_world_size()))
groups = [dist.group.WORLD, dist.new_group(ranks), dist.new_group(ranks)]
row = torch.ones(16)
for number in range(COLLECTIVES):
    dist.all_reduce(row, group=groups[number % len(groups)])


def beats(depth: int) -> float:
    if depth:
        return beats(depth - 1)
    layout = rank_layout()
    assert layout is not None
    thread = RankHeartbeatThread(layout)
    begun = time.thread_time()
    for _ in range(BEATS):
        thread.beat()
    return (time.thread_time() - begun) / BEATS


def reports() -> float:
    """Return the seconds per second of reports, which may not run more often than they can be afforded."""
    layout = rank_layout()
    assert layout is not None
    found = ArrivalReports(layout.arrivals, period=1e-3, share=1e9)
    costs = []
    for number in range(REPORTS):
        dist.all_reduce(row)
        time.sleep(2e-3)
        found.report(number + 1, whole)
        costs.append(found.cost)
    cost = statistics.median(costs)
    return cost / affordable(cost)


seconds = (beats(DEPTH), reports())
if dist.get_rank() == 0:
    print("SECONDS", json.dumps(seconds), flush=True)
dist.barrier()
dist.destroy_process_group()
