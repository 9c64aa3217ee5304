"""The peak of a real rank's memory, as its own allocator counts it; nothing of the predictor is used.

torch's CPU allocator (c10, CPUAllocator.cpp) keeps a count of the bytes it has given out and not got back,
and tells the profiler with each allocation and free (`profile_memory=True`). The profiler is started before
the first tensor of the training and stopped after the last step; the peak is the largest count it was told.
Real ranks train with the trainer of the product: loader, strategy, optimizer, loop.

One thing would make the count wrong: a free in a thread without a profiler, as when a worker of gloo drops
the last reference to a buffer. The allocator counts those too where it is told to report everything
(`caffe2_report_cpu_memory_usage`), and the count in the next event is right again.
"""

from __future__ import annotations

import ctypes
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from support.memory.measured_training import settings_of, strategy_of, trainer_of
from support.ranks.measured_ranks import Job

_FLAG = "FLAGS_caffe2_report_cpu_memory_usage"


def measure_peak(job: Job) -> dict[str, Any]:
    """Train this rank for the job's steps and look at what was allocated.

    Returns:
        "peak" in bytes, "setup": the peak before the first step, "steps": the peak of each step, "left": what
        was alive in the end, and, where the job has "events", all as [nanoseconds, bytes, bytes alive].
    """
    report_everything()
    with (
        tempfile.TemporaryDirectory() as folder,
        profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler,
    ):
        settings = settings_of(job, Path(folder))
        strategy = strategy_of(settings)
        strategy.setup()
        trainer = trainer_of(job, settings, strategy)
        marks = [time.time_ns()]
        trainer.parts.optimizer.register_step_post_hook(lambda *_: marks.append(time.time_ns()))
        assert trainer.run()
    events = counted_events(profiler)
    bounds = [0, *marks[:-1], 1 << 63]
    peaks = [
        max((alive for when, _, alive in events if low <= when < high), default=0)
        for low, high in pairwise(bounds)
    ]
    whole = {"peak": max(peaks), "setup": peaks[0], "steps": peaks[1:], "left": events[-1][2]}
    return whole | ({"events": events, "marks": marks} if job.get("events") else {})


def report_everything() -> None:
    """Have the allocator count what threads without a profiler free."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    ctypes.c_bool.in_dll(library, _FLAG).value = True


def counted_events(profiler: Any) -> list[tuple[int, int, int]]:
    """(time in ns, bytes or their negative, bytes alive) of each allocation and free that was told of."""
    told = []
    pending = list(profiler.profiler.kineto_results.experimental_event_tree())
    while pending:
        event = pending.pop()
        pending += event.children
        if event.tag == torch._C._profiler._EventType.Allocation:
            fields = event.extra_fields
            told.append((event.start_time_ns, fields.alloc_size, fields.total_allocated))
    return sorted(told)
