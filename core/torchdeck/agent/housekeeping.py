"""Housekeeping next to the agent's loop, in threads: the machine's series, and syncing files to disk."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from torchdeck.agent.gpus import Sampler, gpu_sampler
from torchdeck.agent.machine import MachineSampler, RankMemory
from torchdeck.contract.free_space import LowDisk, free_bytes, low_disk
from torchdeck.contract.layout import NodeLayout, RunLayout
from torchdeck.telemetry.writer import MetricsWriter

SYNC_INTERVAL = 1.0
DISK_INTERVAL = 1.0


class Housekeeping:
    """Samples once in `interval` seconds, syncs and looks at the disk once a second.

    Attributes:
        pids: rank → process whose memory is sampled; set by the loop.
        last_checkpoint: bytes; set by the loop.
        gpus: what `gpu_sampler` reported last.
        rss: rank → resident bytes, as last sampled.
        disk_free: bytes where the run directory is; -1 before the first look.
        low: a folder with too little room, as last seen.
    """

    def __init__(
        self, layout: RunLayout, node: NodeLayout, checkpoints: Path, min_free: int, interval: float
    ) -> None:
        self.pids: Mapping[int, int] = {}
        self.last_checkpoint = 0
        self.gpus: Mapping[str, float] = {}
        self.rss: dict[int, int] = {}
        self.disk_free = -1
        self.low: LowDisk | None = None
        self._layout = layout
        self._checkpoints = checkpoints
        self._min_free = min_free
        self._machine = MachineSampler(layout.root)
        self._memory = RankMemory()
        self._gpus: Sampler | None = None
        self._gpus_known = False
        self._writer = MetricsWriter(node.system, source="system")
        self._system = node.system
        self._syncer = Syncer([node.system])
        self._threads = (
            Every(max(0.1, interval), self._sample, "sampling"),
            Every(SYNC_INTERVAL, self._sync, "syncing"),
            Every(DISK_INTERVAL, self._look_at_disk, "disk"),
        )

    def watch(self, attempt: Path) -> None:
        """Sync what is appended under `attempt` from now on."""
        self._syncer = Syncer([attempt, self._system])

    def stop(self, seconds: float) -> None:
        """End the threads; what they do now may take at most `seconds` more."""
        for thread in self._threads:
            thread.stop(seconds)
        self._writer.close()

    def _sample(self) -> None:
        values = self._machine.sample()
        if not self._gpus_known:
            self._gpus, self._gpus_known = gpu_sampler(), True  # here, since drivers take their time
        if self._gpus is not None:
            self.gpus = self._gpus()
            values.update(self.gpus)
        self.rss = self._memory(self.pids)
        values.update({f"rank{rank}_rss_bytes": float(size) for rank, size in self.rss.items()})
        self._writer.log(values)

    def _sync(self) -> None:
        self._syncer.sync()

    def _look_at_disk(self) -> None:
        self.disk_free = free_bytes(self._layout.root)
        self.low = low_disk(self._layout.root, self._checkpoints, self._min_free, self.last_checkpoint)


class Every:
    """Calls `work` every `interval` seconds in a thread of its own; an error is logged once."""

    def __init__(self, interval: float, work: Callable[[], None], name: str) -> None:
        self._interval = interval
        self._work = work
        self._said = ""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End it after the call that runs now; waits for that at most `seconds`."""
        self._stopped.set()
        self._thread.join(seconds)

    @property
    def running(self) -> bool:
        """Whether the thread has not ended: a call hangs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopped.is_set():
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 - sampling is never worth a run
                if repr(error) != self._said:
                    self._said = repr(error)
                    print(f"{self._thread.name}: {error!r}", file=sys.stderr, flush=True)
            due = max(due + self._interval, time.monotonic())
            self._stopped.wait(due - time.monotonic())


DEPTH_LIMIT = 4096
"""Files looked at in one go; what a run has beyond them is brought to disk by the kernel, in its own time."""


class Syncer:
    """Remembers how long each file was, and syncs those that grew."""

    def __init__(self, folders: list[Path]) -> None:
        self._folders = folders
        self._sizes: dict[str, int] = {}

    def sync(self) -> int:
        """Sync what grew since the last call; how many files that were. Files may vanish meanwhile."""
        count = 0
        seen = 0
        for folder in self._folders:
            for root, _, names in os.walk(folder):
                for name in names:
                    seen += 1
                    if seen > DEPTH_LIMIT:
                        return count
                    count += self._sync_file(f"{root}/{name}")
        return count

    def _sync_file(self, path: str) -> bool:
        with contextlib.suppress(OSError):
            size = os.stat(path).st_size  # noqa: PTH116 - a thousand files a second: Path objects cost
            if self._sizes.get(path) == size:
                return False
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)
            self._sizes[path] = size
            return True
        return False
