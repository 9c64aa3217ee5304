"""One GPU: its values, who holds it until when, and why its clock is lower, by values."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.gpus import GIB, RUN, device, free_gpu, gpu_now, process_here
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.nodes.gpus.gpu_now import (
    REASON_BITS,
    GpuHolder,
    GpuNow,
    GpuProcess,
    GpuState,
    NodeGpus,
    Reason,
    RunHold,
    gpus_of,
    held_runs,
    reason_words,
    reasons_of,
    slowdowns_of,
)


def test_values_are_those_of_the_gpu_with_that_index() -> None:
    """GPU 1 and GPU 11 differ."""
    values = {"gpu1_util": 10.0, "gpu11_util": 20.0, "gpu11_throttle_reasons": 0x44, "util": 1.0}
    said = NodeGpus("n", (device(1), device(11)), 5.0, values, {}, None, "ann")
    first, second = gpus_of(said, {})
    assert (first.use, first.reasons, first.processes) == (10.0, None, None)
    assert (second.use, second.reasons, second.time) == (20.0, 0x44, 5.0)
    assert second.key == ("n", "GPU-11")


def test_a_run_holds_by_its_lease_with_its_name_user_and_expected_end() -> None:
    """The name in the run's own journal wins over that in the lock file."""
    gpu = gpu_now(lease=(RUN, "old"), runs={RUN: RunHold("fast", 1234.5)})
    assert gpu.holders == (GpuHolder("fast", "ann", RUN, until=1234.5),)
    assert held_runs([gpu, free_gpu()]) == {RUN}


def test_processes_of_a_run_are_the_run_and_others_hold_by_themselves() -> None:
    gpu = gpu_now(process_here(1, run_id=RUN, user="ann"), process_here(2, run_id=RUN), process_here(3))
    assert gpu.holders == (
        GpuHolder(RUN, "ann", RUN),
        GpuHolder("python train.py --lr 3e-4", "bob", pid=3),
    )
    assert gpu.processes is not None
    assert [each.process for each in gpu.processes] == [ProcessIdentity(pid, 77, "b") for pid in (1, 2, 3)]


def test_a_desktop_does_not_hold_a_gpu() -> None:
    gpu = free_gpu(mig=1.0)
    drawn = replace(gpu, processes=(GpuProcess(7, graphics=True),))
    assert (drawn.state, drawn.holders, drawn.mig) == (GpuState.FREE, (), True)
    held = gpu_now(process_here(7, graphics=True), process_here(8), util=0.0)
    assert [holder.pid for holder in held.holders] == [8]
    assert not free_gpu().mig


def test_only_processes_on_the_same_gpu_count() -> None:
    assert gpu_now(process_here(gpu=1)).processes == ()


@pytest.mark.parametrize(
    ("gpu", "state"),
    [
        (free_gpu(), GpuState.FREE),
        (free_gpu(lease=(RUN, "fast")), GpuState.HELD),
        (gpu_now(process_here()), GpuState.IN_USE),
        (gpu_now(), GpuState.IN_USE),
        (free_gpu(memory_used_bytes=8.0 * GIB), GpuState.IN_USE),
        (gpu_now(process_here(), is_connected=False), GpuState.UNKNOWN),
        (replace(free_gpu(), use=None, memory_used=None, processes=None), GpuState.UNKNOWN),
    ],
)
def test_the_state_follows_from_processes_lease_and_load(gpu: GpuNow, state: GpuState) -> None:
    """Memory or time in use without a known process, as from within a container, is use."""
    assert gpu.state is state


def test_reasons_are_told_in_words() -> None:
    """Bits by NVML's reference; an unknown one is not dropped."""
    assert reason_words(0x0) == "none"
    assert reason_words(None) == "not reported"
    assert reason_words(0x4 | 0x40) == "power limit, too hot (hardware)"
    assert reasons_of(0x200) == (Reason.OTHER,)
    assert slowdowns_of(0x4 | 0x20 | 0x1) == (Reason.HOT,)
    assert slowdowns_of(None) == ()


@given(st.integers(0, 2**16))
def test_each_bit_is_one_reason(mask: int) -> None:
    known = [reason for bit, reason in REASON_BITS.items() if mask & bit]
    assert [reason for reason in reasons_of(mask) if reason is not Reason.OTHER] == known
    assert (Reason.OTHER in reasons_of(mask)) == (mask > 0x1FF)
