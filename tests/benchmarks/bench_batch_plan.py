"""Batch plans of ten million: building, opening, memory, stats of 8,192 ranks, balance and its price.

Peers: the same schedule as plain Python objects dealt out in turn (measured on a tenth and scaled up by ten,
since all of it takes minutes and gigabytes), and torch's DistributedSampler, which orders samples one by one.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.rows import Row
from torchdeck.data.batch_plan import (
    BatchPlan,
    EpochColumns,
    PlanMeta,
    PlanSettings,
    build_batch_plan,
    compute_shard_stats,
    load_batch_plan,
    save_batch_plan,
)
from torchdeck.data.batch_plan.balance import balanced

SAMPLES = 10_000_000
TENTH = SAMPLES // 10
BUDGET = 16_384
LONGEST = 8192
RANKS = 8192
BALANCED_RANKS = 64
EACH = 16
REPEATS = 3
"""The least counts: it is the one that other work on the machine disturbed least."""


def run() -> list[Row]:
    """Rows for the goals of batch plans."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "plan"
        return [*_building(place), *_opening(place), *_sampler(), *_stats(), *_balance()]


def _lengths(count: int) -> npt.NDArray[np.int32]:
    drawn = np.random.default_rng(0).lognormal(5, 1, count)
    return np.clip(drawn, 1, LONGEST).astype(np.int32)


def _building(place: Path) -> list[Row]:
    """In a process of its own, whose peak is that of building and nothing else."""
    np.save(place.parent / "lengths.npy", _lengths(SAMPLES))
    script = (
        "import resource, sys, time\n"
        "from torchdeck.data.batch_plan import build_batch_plan, read_lengths, save_batch_plan\n"
        "lengths = read_lengths(sys.argv[1])\n"
        "begun = time.perf_counter()\n"
        f"plan = build_batch_plan(lengths, token_budget={BUDGET})\n"
        "plan.fingerprint\n"
        "print(time.perf_counter() - begun)\n"
        "save_batch_plan(plan, sys.argv[2], overwrite=True)\n"
        "print(time.perf_counter() - begun)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    argv = [sys.executable, "-c", script, str(place.parent / "lengths.npy"), str(place)]
    outputs = [
        subprocess.run(argv, capture_output=True, text=True, check=True).stdout for _ in range(REPEATS)
    ]
    built, saved, peak = (
        min(values) for values in zip(*(map(float, text.split()) for text in outputs), strict=True)
    )
    objects, object_bytes = _objects()
    lower = {"lower_is_better": True, "goal_is_absolute": True}
    on_disk = sum(file.stat().st_size for file in place.iterdir()) / 1e6
    return [
        Row(
            "build a plan of 10M samples",
            built,
            "s",
            objects,
            "Python objects",
            objects / built,
            4.0,
            **lower,
        ),
        Row("build and save it", saved, "s"),
        Row(
            "peak memory of that",
            peak * 1024 / 1e9,
            "GB",
            object_bytes / 1e9,
            "Python objects",
            None,
            0.6,
            **lower,
        ),
        Row("on disk", on_disk, "MB"),
    ]


@dataclass
class _Microbatch:
    index: int
    bucket_id: int
    max_len: int
    samples: tuple[str, ...]


def _objects() -> tuple[float, float]:
    """Seconds and bytes that ten million samples take as objects, dealt out to ranks in turn."""
    script = (
        "import time\n"
        "from benchmarks.bench_batch_plan import TENTH, _lengths, plain_objects, resident\n"
        "lengths = _lengths(TENTH).tolist()\n"
        "before = resident()\n"
        "begun = time.perf_counter()\n"
        "ranks = plain_objects(lengths)\n"
        "print(time.perf_counter() - begun)\n"
        "print(resident() - before)\n"
    )
    tests = str(Path(__file__).parents[1])
    argv = [sys.executable, "-c", script]
    text = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=tests).stdout
    seconds, taken = map(float, text.split())
    return 10 * seconds, 10 * taken


def resident() -> int:
    """Bytes of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def plain_objects(lengths: list[int]) -> list[list[_Microbatch]]:
    """Buckets of a power of two, filled to the budget, shuffled, and dealt out to ranks in turn."""
    order = list(range(len(lengths)))
    random.Random(0).shuffle(order)  # noqa: S311 - an order, not a secret
    buckets: dict[int, list[str]] = {}
    made: list[_Microbatch] = []
    for sample in order:
        bucket = (lengths[sample] - 1).bit_length()
        samples = buckets.setdefault(bucket, [])
        samples.append(str(sample))
        if (len(samples) + 1) << bucket > BUDGET:
            made.append(_Microbatch(len(made), bucket, 1 << bucket, tuple(samples)))
            samples.clear()
    made += [
        _Microbatch(len(made), bucket, 1 << bucket, tuple(samples))
        for bucket, samples in buckets.items()
        if samples
    ]
    random.Random(1).shuffle(made)  # noqa: S311 - as above
    return [made[rank::RANKS] for rank in range(RANKS)]


def _opening(place: Path) -> list[Row]:
    opened = _least(lambda: load_batch_plan(place))
    verified = _least(lambda: load_batch_plan(place, verify=True))
    plan = load_batch_plan(place)
    columns = plan.epoch_columns(0)
    padding = 1 - float(columns.tokens.sum(dtype=np.int64) / columns.padded_tokens.sum())
    views = _least(lambda: sum(1 for _ in plan.iter_epoch(0)))
    copy = place.parent / "copy.jsonl"
    tenth = build_batch_plan(_lengths(TENTH), token_budget=BUDGET)
    written = _least(lambda: save_batch_plan(tenth, copy, layout="jsonl", overwrite=True))
    parsed = _least(lambda: load_batch_plan(copy))
    return [
        Row("open it", opened, "s", 10 * parsed, "epoch_N.jsonl", 10 * parsed / opened, 0.05, True, True),
        Row("verify it", verified, "s"),
        Row("padding of it", 100 * padding, "%"),
        Row("views of all its microbatches", views, "s"),
        Row("write a tenth as jsonl", written, "s"),
        Row("read a tenth as jsonl", parsed, "s"),
    ]


def _sampler() -> list[Row]:
    """One rank's order of an epoch, as each rank of torch's sampler makes it."""
    from torch.utils.data import DistributedSampler

    class Sized:
        def __len__(self) -> int:
            return SAMPLES

        def __getitem__(self, index: int) -> int:
            return index

    sampler: DistributedSampler[int] = DistributedSampler(Sized(), num_replicas=RANKS, rank=0)  # type: ignore[arg-type]
    theirs = _least(lambda: list(sampler))
    lengths = _lengths(SAMPLES)
    ours = _least(lambda: build_batch_plan(lengths, token_budget=BUDGET))
    return [
        Row("a batched epoch of all ranks", ours, "s", theirs, "DistributedSampler, one rank", theirs / ours)
    ]


def _stats() -> list[Row]:
    plan = _ten_million_microbatches()
    ours = _least(lambda: compute_shard_stats(plan, RANKS))
    objects = [_Microbatch(index, 0, 512, ("a",) * 4) for index in range(TENTH)]

    def dealt() -> list[tuple[int, int, int]]:
        shards = [[item for item in objects[rank::RANKS]] for rank in range(RANKS)]  # noqa: C416 - what is done
        return [
            (len(shard), sum(len(item.samples) for item in shard), sum(item.max_len for item in shard))
            for shard in shards
        ]

    theirs = 10 * _least(dealt)
    return [
        Row(
            "stats of 8,192 ranks, 10M microbatches",
            ours,
            "s",
            theirs,
            "Python objects",
            theirs / ours,
            1.0,
            True,
            True,
        )
    ]


def _ten_million_microbatches() -> BatchPlan:
    """Two samples each."""
    offsets = np.arange(0, 2 * SAMPLES + 1, 2, dtype=np.int32)
    lengths = _lengths(SAMPLES)
    ids = np.arange(2 * SAMPLES, dtype=np.int32)
    columns = EpochColumns(ids, offsets, lengths, 2 * lengths, np.zeros(SAMPLES, dtype=np.int32))
    meta = PlanMeta(PlanSettings(BUDGET), 2 * SAMPLES, (LONGEST,), "")
    return BatchPlan(meta, [columns])


def _balance() -> list[Row]:
    worst, in_turn = [], []
    for seed in range(20):
        drawn = np.random.default_rng(seed).lognormal(6, 1, BALANCED_RANKS * EACH)
        costs = np.clip(drawn, 1, LONGEST).astype(np.int64)
        loads = [0] * BALANCED_RANKS
        balanced(costs, loads)
        worst.append(max(loads) * BALANCED_RANKS / sum(loads))
        turns = costs.reshape(EACH, BALANCED_RANKS).sum(axis=0)
        in_turn.append(float(turns.max() / turns.mean()))
    took = _least(lambda: balanced(costs, [0] * BALANCED_RANKS))
    plan = _ten_million_microbatches()
    begun = time.perf_counter()
    stats = compute_shard_stats(plan, BALANCED_RANKS, balance="tokens")
    whole = time.perf_counter() - begun
    turn = 100 * (float(np.mean(in_turn)) - 1)
    lower = {"lower_is_better": True, "goal_is_absolute": True}
    over = 100 * (max(worst) - 1)
    return [
        Row("most over mean, 64 ranks × 16, worst of 20", over, "%", turn, "round robin", None, 2.0, **lower),
        Row("balance 1,024 microbatches", 1e3 * took, "ms"),
        Row("balance 10M microbatches over 64 ranks", whole, "s"),
        Row("most over mean of that", 100 * (stats.imbalance - 1), "%"),
    ]


def _least(work: Callable[[], object]) -> float:
    """Seconds of the fastest of some tries."""
    took = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        work()
        took.append(time.perf_counter() - begun)
    return min(took)
