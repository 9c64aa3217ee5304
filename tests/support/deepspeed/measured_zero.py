"""The peak of real DeepSpeed ranks by their allocators: `python -m support.deepspeed.measured_zero IN OUT`.

IN is JSON: {"world_size": N, "cases": [case]}, a byte-gpt each; OUT gets [[peaks of a rank, …] of a case, …].
Events are those of `support.memory.measured_peak`; nothing of the predictor is used. A case says what
DeepSpeed is told: its buckets are made small, as its defaults are gigabytes.
"""

from __future__ import annotations

import importlib
import time
from itertools import pairwise
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import default_collate

from support.deepspeed.zero_ranks import main, make_optimizer
from support.memory.measured_peak import counted_events, report_everything
from torchdeck.distributed.recipe_loading import load_recipe

STEPS = 3


def measure_peak(case: dict[str, Any]) -> dict[str, Any]:
    """Train for some steps: "setup" before the first and "steps", the peaks of each, in bytes.

    Under "phases" the peaks of what the last step does by name, as far as DeepSpeed's caller can tell.
    """
    report_everything()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
        marks, phases = _train(case)
    events = counted_events(profiler)
    bounds = [0, *marks, 1 << 63]
    peaks = [_peak(events, low, high) for low, high in pairwise(bounds)]
    named = {name: _peak(events, low, high) for name, low, high in phases}
    found = {"setup": peaks[0], "steps": peaks[1:-1], "phases": named}
    return found | ({"events": events, "spans": phases} if case.get("events") else {})


def _train(case: dict[str, Any]) -> tuple[list[int], list[tuple[str, int, int]]]:
    """Times in ns: begin of each step and the end of all; phases of the last step's last microbatch."""
    recipe = load_recipe("byte-gpt")
    torch.manual_seed(0)
    model = recipe.build_model(dict(case["model"]))
    data = recipe.build_data(recipe.options_of_data(case["model"], case["data"]), "train")
    engine, *_ = importlib.import_module("deepspeed").initialize(
        model=model, optimizer=make_optimizer(model, case), config=case["config"]
    )
    marks, phases = [time.time_ns()], []
    for _ in range(STEPS):
        for _ in range(case["accumulation"]):
            times = [time.time_ns()]
            batch = default_collate([data[index] for index in range(case["microbatch"])])
            loss, _ = recipe.loss(engine, batch)
            times.append(time.time_ns())
            engine.backward(loss)
            times.append(time.time_ns())
            engine.step()
            times.append(time.time_ns())
            names = ("forward", "backward", "optimizer")
            phases = [(name, low, high) for name, (low, high) in zip(names, pairwise(times), strict=True)]
        marks.append(time.time_ns())
    return marks, phases


def _peak(events: list[tuple[int, int, int]], low: int, high: int) -> int:
    return max((alive for when, _, alive in events if low <= when < high), default=0)


if __name__ == "__main__":
    main(measure_peak, a_round=1)  # what an engine leaves behind would count for the next
