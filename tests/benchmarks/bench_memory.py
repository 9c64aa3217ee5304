"""Predicted peaks beside those of real ranks, and how long predicting a large world takes."""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.rows import Row
from support.deepspeed.compared_zero import ZeroSetting, compare_zero
from support.memory.measured_memory import Compared, Setting, compare, profile_of
from support.system.deepspeed_python import ABSENT, deepspeed_python
from torchdeck.plan.memory.predict import predict_memory
from torchdeck.plan.memory.spec import ZERO, StrategySpec
from torchdeck.plan.memory.zero_state import ZeroOptions

SMALL, DEEP, WIDE, ODD = (2, 4, 256, 64), (6, 4, 128, 64), (2, 4, 640, 16), (3, 3, 201, 33)
"""(layers, heads, width, context): odd sizes divide evenly among no ranks."""

SETTINGS = [
    Setting("single", 1, SMALL, 4),
    Setting("single", 1, SMALL, 4, "bf16"),
    Setting("single", 1, DEEP, 8, checkpointing=True),
    Setting("single", 1, ODD, 3, accumulation=4),
    Setting("single", 1, WIDE, 2, optimizer="sgd"),
    Setting("ddp", 1, SMALL, 4),
    Setting("ddp", 2, SMALL, 4),
    Setting("ddp", 2, SMALL, 4, accumulation=4),
    Setting("ddp", 2, SMALL, 4, "bf16", accumulation=4),
    Setting("ddp", 2, DEEP, 8, checkpointing=True),
    Setting("ddp", 2, SMALL, 4, bucket_view=False),
    Setting("ddp", 4, ODD, 3),
    Setting("ddp", 4, WIDE, 2),
    Setting("fsdp", 1, SMALL, 4),
    Setting("fsdp", 1, ODD, 3, "bf16"),
    Setting("fsdp", 2, SMALL, 4),
    Setting("fsdp", 2, SMALL, 4, reshard=False),
    Setting("fsdp", 2, SMALL, 4, "bf16"),
    Setting("fsdp", 2, SMALL, 4, accumulation=4),
    Setting("fsdp", 2, DEEP, 8, checkpointing=True),
    Setting("fsdp", 2, DEEP, 8, "bf16", accumulation=4, checkpointing=True),
    Setting("fsdp", 2, WIDE, 2),
    Setting("fsdp", 2, WIDE, 2, "bf16"),
    Setting("fsdp", 2, ODD, 3, optimizer="sgd"),
    Setting("fsdp", 4, DEEP, 8),
    Setting("fsdp", 4, DEEP, 8, reshard=False),
    Setting("fsdp", 4, WIDE, 2),
    Setting("fsdp", 4, ODD, 3),
    Setting("fsdp", 4, ODD, 3, "bf16", accumulation=4),
    Setting("hsdp", 4, SMALL, 4, shard=2),
    Setting("hsdp", 4, WIDE, 2, shard=2),
    Setting("hsdp", 4, SMALL, 4, "bf16", accumulation=4, shard=2),
    Setting("hsdp", 4, ODD, 3, shard=2, reshard=False),
    Setting("hsdp", 2, SMALL, 4, shard=1),
    Setting("single", 1, DEEP, 8, "fp16", accumulation=2, recipe="half-frozen"),
    Setting("ddp", 2, DEEP, 8, recipe="half-frozen"),
    Setting("fsdp", 2, DEEP, 8, recipe="half-frozen"),
    Setting("fsdp", 2, DEEP, 8, accumulation=3, recipe="half-frozen"),
]
_BUCKETS = (100_000, 1_500_000)
"""Elements; some gradients are larger than the smaller one."""
ZERO_SETTINGS = [
    ZeroSetting(
        Setting(kind, 3, model, microbatch, precision, accumulation),
        ZeroOptions(bucket, persistence=1000, prefetch=ahead, max_live=live),
    )
    for kind in ZERO
    for model, microbatch, precision, accumulation, bucket, ahead, live in [
        (SMALL, 4, "fp32", 1, _BUCKETS[0], 10**8, 10**9),
        (SMALL, 4, "fp32", 2, _BUCKETS[1], 10**5, 200_000),
        (SMALL, 4, "bf16", 1, _BUCKETS[1], 10**8, 10**9),
        (WIDE, 2, "fp32", 1, _BUCKETS[1], 10**5, 200_000),
        (WIDE, 2, "bf16", 1, _BUCKETS[0], 10**8, 10**9),
        (DEEP, 8, "fp32", 1, _BUCKETS[1], 10**8, 10**9),
        (DEEP, 8, "bf16", 2, _BUCKETS[0], 10**5, 200_000),
    ]
] + [
    ZeroSetting(Setting(kind, 3, SMALL, 4, "bf16"), ZeroOptions(_BUCKETS[1], persistence=1000), offload=True)
    for kind in ZERO
]
OFF = 0.05
"""Verdicts are tried at capacities that much above and below what was measured."""
RANKS = 8192


def run() -> list[Row]:
    """Median error of the peak; verdicts that were too good; seconds for a large world."""
    found = compare(SETTINGS)
    print(table(found), file=sys.stderr)
    errors = [100 * abs(one.error) for one in found]
    too_good = sum(one.verdict_at(round((1 - OFF) * one.measured)) == "fits" for one in found)
    refused = sum(one.verdict_at(round((1 + OFF) * one.measured)) == "does not fit" for one in found)
    return [
        Row("peak of a rank, median error", statistics.median(errors), "%", wanted=3.0, lower_is_better=True),
        Row("peak of a rank, largest error", max(errors), "%"),
        Row('"fits" at 5 % less than is needed', too_good, "runs", wanted=0.0, lower_is_better=True),
        Row('"does not fit" at 5 % more', refused, "runs", wanted=0.0, lower_is_better=True),
        *_zero(),
        _large_world(),
    ]


def _zero() -> list[Row]:
    """Peaks under ZeRO, where DeepSpeed is at hand."""
    if deepspeed_python() is None:
        print(ABSENT, file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as folder:
        found = compare_zero(ZERO_SETTINGS, Path(folder))
    for one in found:
        print(
            f"{one.setting.name:75} {one.predicted:12,} {one.measured:12,} {100 * one.error:7.2f}%",
            file=sys.stderr,
        )
    errors = [100 * abs(one.error) for one in found]
    over = sum(one.measured > one.high for one in found)
    return [
        Row(
            "peak under ZeRO, median error", statistics.median(errors), "%", wanted=3.0, lower_is_better=True
        ),
        Row("peak under ZeRO, largest error", max(errors), "%"),
        Row("peaks under ZeRO above the range", over, "runs", wanted=0.0, lower_is_better=True),
    ]


def table(found: list[Compared]) -> str:
    """Configurations line by line: predicted, measured, error, verdicts at 5 % below and above."""
    lines = [f"{'':60} {'predicted':>12} {'measured':>12} {'error':>8}  range holds it  at -5 %, +5 %"]
    for one in found:
        below, above = (one.verdict_at(round(part * one.measured)) for part in (1 - OFF, 1 + OFF))
        inside = one.predicted * 0.999 <= one.measured <= one.high
        lines.append(
            f"{one.setting.name:60} {one.predicted:12,} {one.measured:12,} {100 * one.error:7.2f}%  "
            f"{'yes' if inside else 'NO':14}  {below}, {above}"
        )
    return "\n".join(lines)


def _large_world() -> Row:
    """Once the model is traced."""
    profile = profile_of(Setting("fsdp", 2, (48, 16, 1600, 128), 4))
    began = time.perf_counter()
    memory = predict_memory(profile, StrategySpec("fsdp", RANKS, shard=RANKS, microbatch=4))
    seconds = time.perf_counter() - began
    assert sum(last - first + 1 for group in memory for first, last in group.ranks) == RANKS
    return Row(f"memory of {RANKS:,} ranks, GPT-2 XL", seconds, "s", wanted=0.5, lower_is_better=True)
