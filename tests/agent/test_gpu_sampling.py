"""Details of GPUs and processes on them, from a stand-in nvidia-smi and pynvml."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fakes.nvidia_smi import fake_nvidia_smi
from torchdeck.agent.doctor.node.gpus import _table
from torchdeck.agent.gpus import DETAILED_FIELDS, _nvml_details, gpu_sampler, gpu_user_lister, parse_smi

OLD_DRIVER = """case "$*" in
*clocks_event_reasons*) echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2;;
*clocks_throttle_reasons.active*) echo "0, 10, 1, 2, 30, 40, 50, 60, 16, 2619, 0x0000000000000044";;
*) exit 9;;
esac"""


@pytest.mark.processes
def test_a_driver_that_knows_the_old_name_of_the_reasons_is_asked_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nvidia-smi answers nothing if it does not know one of the fields; the new name is tried once."""
    fake_nvidia_smi(tmp_path, f'echo "$*" >> "$0.asked"\n{OLD_DRIVER}')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    sampler = gpu_sampler(is_detailed=True)
    assert sampler is not None
    for values in (sampler(), sampler()):
        assert values["gpu0_memory_clock_mhz"] == 2619
        assert values["gpu0_throttle_reasons"] == 0x44
    asked = (tmp_path / "nvidia-smi.asked").read_text().splitlines()
    assert ["event" in line for line in asked] == [True, False, False]
    assert asked[0].startswith(
        "--query-gpu=index,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw,clocks.sm,"
        "power.limit,pcie.link.width.current,clocks.mem,clocks_event_reasons.active,mig.mode.current "
    )


def test_a_divided_gpu_is_told_by_nvidia_smi() -> None:
    rest = "1, 2, 30, 40, 50, 60, 16, 2619, 0x0"
    values = parse_smi(f"0, 10, {rest}, Enabled\n1, [N/A], {rest}, Disabled", DETAILED_FIELDS[0])
    assert values["gpu0_mig"] == 1.0
    assert "gpu1_mig" not in values
    assert "gpu1_util" not in values


@pytest.mark.processes
def test_evidence_of_a_stalled_run_asks_an_old_driver_by_the_old_name(tmp_path: Path) -> None:
    """Else the table of GPUs would be an error message."""
    body = """case "$*" in
*clocks_event_reasons*) echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2;;
*,clocks_throttle_reasons.active,*) echo "a table";;
esac"""
    assert _table(fake_nvidia_smi(tmp_path, body)) == "a table\n"


class FakeNvml(SimpleNamespace):
    """pynvml as far as details need it: two GPUs, of which the second knows no reasons."""

    NVMLError = RuntimeError
    NVML_CLOCK_MEM = 2

    def nvmlInit(self) -> None:  # noqa: N802 (NVML's own name)
        return

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 (NVML's own name)
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802 (NVML's own name)
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str | bytes:  # noqa: N802 (NVML's own name)
        return b"GPU-1" if handle else "GPU-0"

    def nvmlDeviceGetClockInfo(self, handle: int, clock: int) -> int:  # noqa: N802 (NVML's own name)
        return 1000 * clock + handle

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:  # noqa: N802 (NVML's own name)
        if handle:
            raise self.NVMLError("Not Supported")
        return 4

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:  # noqa: N802 (as above)
        return [SimpleNamespace(pid=70 + handle, usedGpuMemory=None if handle else 512)]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: int) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=64) for pid in (70, 80)] if not handle else []

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:  # noqa: N802 (NVML's own name)
        if not handle:
            raise self.NVMLError("Not Supported")
        return [1, 1]


def test_nvml_tells_details_and_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the old name of the function, as older packages have it; what a device does not tell is left out."""
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    assert _nvml_details(FakeNvml(), 0, 0) == {"gpu0_memory_clock_mhz": 2000, "gpu0_throttle_reasons": 4}
    assert _nvml_details(FakeNvml(), 1, 1) == {"gpu1_memory_clock_mhz": 2001, "gpu1_mig": 1.0}
    lister = gpu_user_lister()
    assert lister is not None
    assert lister() == [
        {"uuid": "GPU-0", "pid": 70, "memory": 512},
        {"uuid": "GPU-0", "pid": 80, "memory": 64, "graphics": True},
        {"uuid": "GPU-1", "pid": 71, "memory": None},
    ]
