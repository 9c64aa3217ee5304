"""One rank of a trial: joins the others, reduces known content, measures every pair and all together."""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

MARK = "torchdeck-trial "
CONTENT = 100_003
"""Count of numbers with known content; prime, so that every chunk differs from every other."""
PERIOD = 251
LATENCIES = 25
BANDWIDTH_SECONDS = 1.5
"""Approximate seconds spent measuring bandwidth."""
FIRST_BYTES = 2**20
ENOUGH_SECONDS = 0.3
"""An all-reduce that takes as long is not repeated with more."""


def say(stage: str, **more: object) -> None:
    """Print a line for the reader in one write, as other ranks write into the same pipe."""
    head = {"rank": int(os.environ["RANK"]), "stage": stage, **more}
    os.write(1, f"{MARK}{json.dumps(head)}\n".encode())


def trial(backend: str, size: int, limit: float, nodes: str) -> None:
    """Run the whole trial.

    Args:
        backend: `gloo` or `nccl`.
        size: bytes of the all-reduce that measures bandwidth.
        limit: seconds after which torch stops waiting for other ranks.
        nodes: ranks of each node, as JSON.
    """
    import torch
    import torch.distributed as dist

    say("imported", torch=torch.__version__)
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group(backend, timeout=timedelta(seconds=limit))
    say("joined")
    world = dist.get_world_size()

    def settled() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    _check_content(torch, dist, device, world)
    say("reduced")
    importlib.import_module("pair_rank").measure_pairs(json.loads(nodes), device, settled, say)
    say("paired")
    small = torch.zeros(1, device=device)
    latency = statistics.median(_timed(lambda: dist.all_reduce(small), settled) for _ in range(LATENCIES))
    bandwidth = _bandwidth(torch, dist, device, size, settled)
    say("measured", latency=latency, bandwidth=bandwidth, world_size=world)
    dist.barrier()
    dist.destroy_process_group()
    say("done")


def _check_content(torch: Any, dist: Any, device: Any, world: int) -> None:
    """Check an all-reduce in which rank r contributes (r + 1) · (i mod 251): whole numbers that a float
    represents exactly.
    """
    pattern = torch.arange(CONTENT, device=device, dtype=torch.float64) % PERIOD
    content = pattern * (dist.get_rank() + 1)
    dist.all_reduce(content)
    wrong = int((content != pattern * (world * (world + 1) // 2)).sum())
    if wrong:
        raise RuntimeError(f"{wrong} of {CONTENT} sums came back wrong: the network or a library is at fault")


def _bandwidth(torch: Any, dist: Any, device: Any, size: int, settled: Callable[[], None]) -> float:
    """Return the bytes per second of an all-reduce of at most `size` bytes, the median of a few."""
    tried = min(size, FIRST_BYTES)
    while True:  # from little to much: over a slow link much would take minutes
        big = torch.zeros(max(1, tried // 4), device=device)
        reduce = partial(dist.all_reduce, big)
        agreed = torch.tensor([_timed(reduce, settled)], device=device)
        dist.broadcast(agreed, 0)  # all must run the same number of reductions
        if tried == size or float(agreed) > ENOUGH_SECONDS:
            break
        tried = min(size, 4 * tried)
    count = int(min(10, max(1, BANDWIDTH_SECONDS / float(agreed))))
    return tried / statistics.median(_timed(reduce, settled) for _ in range(count))


def _timed(do: Callable[[], Any], settled: Callable[[], None]) -> float:
    started = time.perf_counter()
    do()
    settled()
    return max(1e-9, time.perf_counter() - started)


def main(argv: list[str]) -> int:
    """Run; report any error and return exit code 1 for it."""
    say("started")
    try:
        trial(argv[0], int(argv[1]), float(argv[2]), argv[3])
    except BaseException as error:  # noqa: BLE001 - who reads names the node by it
        say("failed", why=f"{type(error).__name__}: {str(error).strip()}"[:600])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
