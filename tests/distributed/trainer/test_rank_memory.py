"""What a rank on the CPU says of its memory."""

import mmap
import sys
from pathlib import Path

import pytest
import torch

from torchdeck.distributed.trainer import hooks as rank_memory
from torchdeck.distributed.trainer.hooks import RankMemory

MIB = 1 << 20


def touch(size: int) -> None:
    """Have `size` bytes resident for a moment: from the kernel, not from what an allocator has kept."""
    with mmap.mmap(-1, size) as memory:
        for page in range(0, size, mmap.PAGESIZE):
            memory[page] = 1


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are reset through /proc")
def test_growth_counts_from_the_mark() -> None:
    """What was let go before the mark is not in the peak; what comes after is, though let go again."""
    touch(200 * MIB)
    memory = RankMemory(torch.device("cpu"))
    assert "memory_growth_peak_bytes" not in memory.read()
    memory.mark()
    touch(64 * MIB)
    values = memory.read()
    assert 60 * MIB < values["memory_growth_peak_bytes"] < 100 * MIB
    assert values["memory_bytes"] <= values["memory_peak_bytes"]


def test_no_growth_is_said_where_the_peak_cannot_be_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was resident before the mark would be in it."""
    monkeypatch.setattr(rank_memory, "_CLEAR", tmp_path / "none" / "clear_refs")
    memory = RankMemory(torch.device("cpu"))
    memory.mark()
    assert sorted(memory.read()) == ["memory_bytes", "memory_peak_bytes"]
