"""Peaks of real DeepSpeed ranks, by their allocators' own events, against those predicted."""

from pathlib import Path

import pytest

from support.deepspeed.compared_zero import ZeroSetting, compare_zero
from support.memory.measured_memory import Setting
from support.system.deepspeed_python import ABSENT, deepspeed_python
from torchdeck.plan.memory.zero_state import ZeroOptions

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(deepspeed_python() is None, reason=ABSENT),
]

MODEL = (2, 4, 256, 64)
SETTINGS = [
    ZeroSetting(Setting("zero1", 2, MODEL, 4), ZeroOptions(100_000, persistence=1000)),
    ZeroSetting(
        Setting("zero2", 2, MODEL, 4, "bf16", accumulation=2), ZeroOptions(1_500_000, persistence=1000)
    ),
    ZeroSetting(Setting("zero3", 2, MODEL, 4), ZeroOptions(100_000, persistence=1000)),
]
"""A few of those in benchmarks/bench_memory.py."""


@pytest.mark.soak
def test_peaks_are_in_the_predicted_range(tmp_path: Path) -> None:
    """Not above it, and at most 5 % below what was predicted: nothing is counted that is not there."""
    for one in compare_zero(SETTINGS, tmp_path):
        assert one.measured <= one.high, one.setting.name
        assert one.predicted == pytest.approx(one.measured, rel=0.05), one.setting.name
