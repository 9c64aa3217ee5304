"""One rank's part in the exchange of data between pairs of ranks, and the speed of its own GPU."""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

LATENCIES = 20
"""Exchanges of one number; the quickest counts: others waited for a processor, not for the network."""
FIRST_BYTES = 64 * 1024
MOST_BYTES = 16 * 2**20
ENOUGH_SECONDS = 0.05
"""An exchange that takes as long is not repeated with more."""
REPEATS = 3
BUDGET = 40.0
"""Seconds for all pairs; then no further ones begin."""
WAIT = timedelta(seconds=60)
"""For the other ranks between two matchings; who follows the trial gives up earlier."""
MATMUL = 4096
"""Rows and columns of the product that measures a GPU's speed."""
COPIED = 256 * 2**20
"""Bytes copied from pinned memory to a GPU."""

Say = Callable[..., None]


def measure_pairs(nodes: Sequence[Sequence[int]], device: Any, settled: Callable[[], None], say: Say) -> None:
    """Measure all pairs of the first round, then those of the second, which depends on the first.

    Args:
        nodes: ranks of each node.
        device: where the exchanged tensors are.
        settled: returns once the device has finished.
        say: prints a line for the reader.
    """
    pairs = importlib.import_module("pairs")  # next to this file at run time
    gpus = device.type == "cuda"
    if gpus:
        say("device", **device_speed(device, settled))
    rounds = Rounds(device, settled, say)
    first = pairs.schedule(nodes, gpus=gpus)
    rounds.run(first, "first")
    again = rounds.agreed(lambda speeds: pairs.second_round(pairs.groups(nodes, gpus=gpus), speeds), first)
    rounds.run(again, "second")


class Rounds:
    """Matchings, one after the other, at the same time on all ranks.

    Ranks wait for each other by the store, as a collective would use connections that are being measured.
    """

    def __init__(self, device: Any, settled: Callable[[], None], say: Say) -> None:
        dist: Any = importlib.import_module("torch.distributed")  # its stores are not in its type stubs
        self._device, self._settled, self._say = device, settled, say
        self._rank, self._world = dist.get_rank(), dist.get_world_size()
        where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = dist.TCPStore(*where, is_master=False, wait_for_workers=False, timeout=WAIT)
        self._store = dist.PrefixStore("pairs", store)
        self._begun = time.monotonic()

    def run(self, matchings: Sequence[Sequence[tuple[int, int]]], name: str) -> None:
        """Exchange data with this rank's partner of each matching, and print the results."""
        for number, matching in enumerate(matchings):
            if not self._together(f"{name}-{number}"):
                return
            for low, high in matching:
                if self._rank in (low, high):
                    self._measure(low, high)

    def agreed(
        self, choose: Callable[[dict[tuple[int, int], Any]], list[Any]], first: Sequence[Any]
    ) -> list[Any]:
        """Return what rank 0 chooses by all results so far."""
        self._together("chosen")
        if self._rank == 0:
            speed = importlib.import_module("pairs").Speed
            keys = [(low, high) for matching in first for low, high in matching]
            found = {
                pair: speed(*json.loads(self._store.get(_key(*pair))))
                for pair in keys
                if self._store.check([_key(*pair)])
            }
            self._store.set("second", json.dumps(choose(found)))
        return list(json.loads(self._store.get("second")))

    def _together(self, name: str) -> bool:
        """Wait until all ranks are here; return whether there is time for more."""
        if self._store.add(f"{name}-there", 1) == self._world:
            self._store.set(f"{name}-go", str(int(time.monotonic() - self._begun < BUDGET)))
        return int(self._store.get(f"{name}-go")) == 1

    def _measure(self, low: int, high: int) -> None:
        peer = high if self._rank == low else low
        self._say("pairing", peer=peer)
        latency, bandwidth = exchange_speed(peer, self._device, self._settled)
        if self._rank == low:
            self._store.set(_key(low, high), json.dumps([latency, bandwidth]))
        self._say("pair", peer=peer, latency=latency, bandwidth=bandwidth)


def _key(low: int, high: int) -> str:
    return f"speed-{low}-{high}"


def exchange_speed(peer: int, device: Any, settled: Callable[[], None]) -> tuple[float, float]:
    """Return the latency in seconds, and bytes/s in each direction; both sides return the same.

    Both send and receive at once, and take the longer time of the two.
    """
    import torch
    import torch.distributed as dist

    def exchange(sent: Any, received: Any) -> float:
        begun = time.perf_counter()
        operations = [dist.P2POp(dist.isend, sent, peer), dist.P2POp(dist.irecv, received, peer)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        settled()
        return max(1e-9, time.perf_counter() - begun)

    def longer(seconds: float) -> float:
        own, other = torch.tensor([seconds], device=device), torch.zeros(1, device=device)
        exchange(own, other)
        return max(float(own), float(other))

    one = torch.zeros(1, device=device), torch.zeros(1, device=device)
    exchange(*one)  # the peer may come later, and connections are made by the first exchange
    latency = longer(min(exchange(*one) for _ in range(LATENCIES)))
    size = FIRST_BYTES
    while True:
        block = torch.zeros(size // 4, device=device), torch.zeros(size // 4, device=device)
        exchange(*one)
        seconds = longer(exchange(*block))
        if seconds > ENOUGH_SECONDS or size == MOST_BYTES:
            break
        size *= 4
    repeats = REPEATS if seconds < 2 * ENOUGH_SECONDS else 1
    for _ in range(repeats):
        exchange(*one)
        seconds = min(seconds, longer(exchange(*block)))
    return latency, size / seconds


def device_speed(device: Any, settled: Callable[[], None]) -> dict[str, Any]:
    """Return a GPU's name, `compute` in multiply-adds/s of a product of bf16 matrices, and `copy` in bytes/s
    from pinned memory to it.
    """
    import torch

    matrix = torch.randn(MATMUL, MATMUL, device=device, dtype=torch.bfloat16)
    pinned = torch.empty(COPIED, dtype=torch.uint8).pin_memory()
    target = torch.empty(COPIED, dtype=torch.uint8, device=device)

    def fastest(do: Callable[[], object]) -> float:
        times = []
        for _ in range(5):
            settled()
            begun = time.perf_counter()
            do()
            settled()
            times.append(time.perf_counter() - begun)
        return max(1e-9, min(times))

    compute = MATMUL**3 / fastest(lambda: matrix @ matrix)
    copy = COPIED / fastest(lambda: target.copy_(pinned, non_blocking=True))
    return {"name": torch.cuda.get_device_name(device), "compute": compute, "copy": copy}
