"""The hook that records samples, and what becomes of training when it cannot."""

import logging
import os
from pathlib import Path

import numpy as np
import pytest

from torchdeck.contract.run_states import RankPhase
from torchdeck.data.order import Position, SampleOrder
from torchdeck.data.sample_log import SampleLog
from torchdeck.data.step_order import SeededSteps
from torchdeck.distributed.trainer.hooks import SamplesHook
from torchdeck.distributed.trainer.step import StepResult

ORDER = SeededSteps(SampleOrder(20, 0), microbatch=2, accumulation=2, world_size=3)


def result(step: int) -> StepResult:
    return StepResult(
        step=step,
        loss=1.0,
        lr=0.1,
        grad_norm=None,
        samples=12,
        tokens=24.0,
        seconds=0.1,
        stop=False,
        save=False,
        end=False,
        epoch=0,
        rank_tokens=8.0,
        rank_ids=(np.array([3, 4]), np.array([19, 0])),
    )


def test_what_a_step_says_is_recorded(tmp_path: Path) -> None:
    """Header by order, rank and start; ids, microbatches and tokens by the step's result."""
    path = tmp_path / "samples.log"
    hook = SamplesHook(path, rank=1, world_size=3)
    hook.step(result(1))  # before anything began there is nothing to record
    hook.begin(ORDER, Position(0, 12, 1))
    hook.step(result(2))
    hook.phase(RankPhase.SAVING, 2, 9)
    hook.close()
    log = SampleLog(path)
    assert (log.header.size, log.header.rank, log.header.world_size) == (20, 1, 3)
    assert Position.from_json(log.header.start) == Position(0, 12, 1)
    (record,) = log.records()
    assert (record.step, record.epoch, record.tokens) == (2, 0, 8.0)
    assert (record.ids.tolist(), record.counts.tolist()) == ([3, 4, 19, 0], [2, 2])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_said_once_and_training_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first record that cannot be written ends the recording, not the training."""
    path = tmp_path / "samples.log"
    hook = SamplesHook(path, rank=1, world_size=3)
    hook.begin(ORDER, Position())
    hook.step(result(1))
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, hook._writer._descriptor)  # type: ignore[union-attr]
    os.close(full)
    with caplog.at_level(logging.WARNING, "torchdeck"):
        hook.step(result(2))
        hook.step(result(3))
        hook.phase(RankPhase.SAVING, 3, 9)
        hook.close()
    (message,) = caplog.messages
    assert message.startswith("which samples rank 1 uses is no longer recorded")
    assert "No space left on device" in message
    assert [record.step for record in SampleLog(path).records()] == [1]


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Training begins without a record."""
    (tmp_path / "file").touch()
    hook = SamplesHook(tmp_path / "file" / "samples.log", rank=0, world_size=1)
    with caplog.at_level(logging.WARNING, "torchdeck"):
        hook.begin(ORDER, Position())
        hook.step(result(1))
    assert "is no longer recorded" in caplog.text
