"""Histories of GPUs while they are monitored, each in a ring of bounded size."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from torchdeck.nodes.gpus.gpu_now import GpuNow, Reason, reasons_of

CAPACITY = 900
"""Samples of each GPU: 15 minutes at one per second."""


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


SERIES: Mapping[str, Callable[[GpuNow], float]] = {
    "use": lambda gpu: _number(gpu.use),
    "memory": lambda gpu: _number(gpu.memory_share),
    "temperature": lambda gpu: _number(gpu.temperature),
    "power": lambda gpu: _number(gpu.power),
    "clock": lambda gpu: _number(gpu.clock),
    "memory_clock": lambda gpu: _number(gpu.memory_clock),
    "reasons": lambda gpu: _number(gpu.reasons),
}
"""Recorded values: percent, percent, °C, W, MHz, MHz, and NVML's bit mask."""


class Track(NamedTuple):
    """One series of a GPU, oldest first; NaN for values that were not reported."""

    times: Sequence[float]
    """Seconds since 1970."""
    values: Sequence[float]


class GpuHistory:
    """The last samples of one GPU."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._times = array("d")
        self._values = {name: array("d") for name in SERIES}

    def __len__(self) -> int:
        return min(len(self._times), self._capacity)

    def add(self, gpu: GpuNow) -> bool:
        """Record a sample; return False if it is the last one again, or there is none.

        The history begins again if the clock was set back.
        """
        if gpu.time is None or not gpu.is_connected or (self._times and gpu.time == self._times[-1]):
            return False
        if self._times and gpu.time < self._times[-1]:
            for column in (self._times, *self._values.values()):
                del column[:]
        self._times.append(gpu.time)
        for name, read in SERIES.items():
            self._values[name].append(read(gpu))
        if len(self._times) >= 2 * self._capacity:  # dropped in one go, so that each sample costs the same
            for column in (self._times, *self._values.values()):
                del column[: -self._capacity]
        return True

    def track(self, name: str) -> Track:
        """Return one of `SERIES`."""
        return Track(self._times[-self._capacity :], self._values[name][-self._capacity :])


GAP = 5.0
"""Seconds between two samples from which nothing is known in between."""


def segments(track: Track, since: float) -> list[list[tuple[float, float]]]:
    """Return the (time, value) points from `since` on, in a list for each part without a gap."""
    found: list[list[tuple[float, float]]] = []
    last: float | None = None
    first = bisect_left(track.times, since)
    for time, value in zip(track.times[first:], track.values[first:], strict=True):
        if math.isnan(value):
            continue
        if last is None or time - last > GAP:
            found.append([])
        found[-1].append((time, value))
        last = time
    return found


SPANS = (60.0, 120.0, 300.0, 600.0, 900.0)
"""Lengths of a time axis in seconds: it grows in steps."""


def span_of(track: Track) -> float:
    """Return the shortest time axis on which the whole track fits."""
    length = track.times[-1] - track.times[0] if track.times else 0.0
    return next((span for span in SPANS if length <= span), SPANS[-1])


def reason_shares(track: Track, since: float) -> dict[Reason, float]:
    """Return the percent of the samples from `since` on with each reason, the most frequent first."""
    masks = [
        int(mask)
        for time, mask in zip(track.times, track.values, strict=True)
        if time >= since and not math.isnan(mask)
    ]
    counts = Counter(reason for mask in masks for reason in reasons_of(mask))
    return {reason: 100.0 * count / len(masks) for reason, count in counts.most_common()}


class GpuHistories:
    """Histories of all monitored GPUs. Use it from one thread."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._histories: dict[tuple[str, str], GpuHistory] = {}

    def add(self, gpus: Iterable[GpuNow]) -> None:
        """Record a sample of each."""
        for gpu in gpus:
            self.of(gpu.key).add(gpu)

    def of(self, key: tuple[str, str]) -> GpuHistory:
        """Return the history of the GPU with this `GpuNow.key`, which may be empty."""
        return self._histories.setdefault(key, GpuHistory(self._capacity))

    def keep(self, nodes: Collection[str]) -> None:
        """Forget the GPUs of other nodes."""
        self._histories = {key: found for key, found in self._histories.items() if key[0] in nodes}
