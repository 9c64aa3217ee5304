"""What a rank on the CPU says of its memory."""

import sys

import pytest
import torch

from torchdeck.distributed.trainer.memory import RankMemory

MIB = 1 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are reset through /proc")
def test_growth_counts_from_the_mark() -> None:
    """What was let go before the mark is not in the peak; what comes after is, though let go again."""
    before = torch.ones(200 * MIB, dtype=torch.uint8)
    del before
    memory = RankMemory(torch.device("cpu"))
    assert "memory_growth_peak_bytes" not in memory.read()
    memory.mark()
    after = torch.ones(64 * MIB, dtype=torch.uint8)
    del after
    values = memory.read()
    assert 60 * MIB < values["memory_growth_peak_bytes"] < 100 * MIB
    assert values["memory_bytes"] <= values["memory_peak_bytes"]
