"""A rank that fills the flight recorder, then reports on its arrivals at collectives.

Prints the seconds per second of the reports.
"""

import json
import statistics
import time

import torch
import torch.distributed as dist

from torchdeck.environment import rank_layout
from torchdeck.telemetry.doctor.arrivals import ArrivalReports, affordable
from torchdeck.telemetry.doctor.flight_recorder import whole

COLLECTIVES, REPORTS = 2100, 20

dist.init_process_group("gloo")
ranks = list(range(dist.get_world_size()))
groups = [dist.group.WORLD, dist.new_group(ranks), dist.new_group(ranks)]
row = torch.ones(16)
for number in range(COLLECTIVES):
    dist.all_reduce(row, group=groups[number % len(groups)])


def reports() -> float:
    """Return the seconds per second of reports, which may not run more often than they can be afforded."""
    layout = rank_layout()
    assert layout is not None
    layout.root.mkdir(parents=True, exist_ok=True)
    found = ArrivalReports(layout.arrivals, period=1e-3, share=1e9)
    costs = []
    for number in range(REPORTS):
        dist.all_reduce(row)
        time.sleep(2e-3)
        found.report(number + 1, whole)
        costs.append(found.cost)
    cost = statistics.median(costs)
    return cost / affordable(cost)


seconds = reports()
if dist.get_rank() == 0:
    print("SECONDS", json.dumps(seconds), flush=True)
dist.barrier()
dist.destroy_process_group()
