"""The thread that writes, and the copy it writes from."""

import threading

import pytest
import torch

from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.store import BackgroundWriter
from torchdeck.distributed.checkpoints.tensors.training_tensors import Staging


def test_one_work_at_a_time_and_its_failure_is_heard_once() -> None:
    """`wait` gives up at its limit, then waits on; what failed is raised, and the next work can begin."""
    writer, go_on = BackgroundWriter(), threading.Event()

    def fail() -> None:
        go_on.wait(30)
        raise CheckpointError("the disk is gone")

    writer.start("checkpoint step_00000007", fail)
    assert writer.busy
    assert not writer.failed
    with pytest.raises(CheckpointError, match=r"step_00000007 is still being written after \d+ s"):
        writer.wait(0.01)
    with pytest.raises(RuntimeError, match="was not waited for"):
        writer.start("another", fail)
    go_on.set()
    with pytest.raises(CheckpointError, match="the disk is gone"):
        writer.wait(30)
    assert not writer.failed
    writer.start("the next", lambda: None)
    writer.wait(30)


def test_an_error_of_the_work_is_no_limit_of_the_wait() -> None:
    """A disk that runs out of time is the work's failure, heard once like any other."""
    writer = BackgroundWriter()

    def run_out_of_time() -> None:
        raise TimeoutError("the disk does not answer")

    writer.start("the work", run_out_of_time)
    with pytest.raises(TimeoutError, match="the disk does not answer"):
        writer.wait(30)
    assert not writer.failed
    writer.wait(30)


def test_a_copy_stays_as_it_was_and_its_memory_is_kept() -> None:
    """Training may change the originals; the next copy takes the same memory where shapes agree."""
    staging = Staging()
    weights = {"a": torch.arange(6.0).reshape(2, 3).requires_grad_(), "step": torch.tensor(3.0)}
    first = staging.copy(weights)
    with torch.no_grad():
        weights["a"].zero_()
    assert first["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert not first["a"].requires_grad
    places = {name: tensor.data_ptr() for name, tensor in first.items()}
    second = staging.copy({**weights, "more": torch.ones(2)})
    assert {name: second[name].data_ptr() for name in places} == places
    assert second["a"].sum() == 0
    third = staging.copy({"a": torch.ones(4)})
    assert third["a"].tolist() == [1, 1, 1, 1]
    assert third.keys() == {"a"}
