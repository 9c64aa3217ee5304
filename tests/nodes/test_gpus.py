"""GPUs of this machine."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fakes.nvidia_smi import H100, fake_nvidia_smi
from torchdeck.contract.inventory import Device
from torchdeck.nodes.this_machine import devices_from_nvml, devices_from_smi, probe_gpus

pytestmark = pytest.mark.processes


def test_nvidia_smi_is_read(tmp_path: Path) -> None:
    """Index, UUID, name, and memory in bytes: in all and free."""
    program = fake_nvidia_smi(tmp_path, f"cat <<'E'\n{H100}E")
    assert devices_from_smi(program, 30) == (
        Device(0, "GPU-aaaa", "NVIDIA H100 80GB HBM3", 81559 * 2**20, 81000 * 2**20),
        Device(1, "GPU-bbbb", "NVIDIA H100 80GB HBM3", 81559 * 2**20, 559 * 2**20),
    )


def test_nvidia_smi_is_asked_for_what_is_parsed(tmp_path: Path) -> None:
    """The columns come in the order in which they are read."""
    program = fake_nvidia_smi(tmp_path, 'echo "$@" > "$(dirname "$0")/asked"')
    assert devices_from_smi(program, 30) == ()
    asked = "--query-gpu=index,uuid,memory.total,memory.free,driver_version,name"
    assert asked in (tmp_path / "asked").read_text()


@pytest.mark.parametrize("body", ["exit 9", "echo 'No devices were found'", "echo garbage; echo 1,2", ""])
def test_a_driver_in_trouble_has_no_gpus(tmp_path: Path, body: str) -> None:
    """An error of nvidia-smi's is no GPU and no crash."""
    assert devices_from_smi(fake_nvidia_smi(tmp_path, body), 5) == ()


def test_a_driver_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    """A broken driver hangs nvidia-smi; planning continues after the limit."""
    assert devices_from_smi(fake_nvidia_smi(tmp_path, "exec sleep 60"), 0.3) == ()


def test_no_nvidia_smi_is_no_gpus(tmp_path: Path) -> None:
    """Most laptops."""
    assert devices_from_smi(str(tmp_path / "nvidia-smi"), 5) == ()


class FakeNvml(SimpleNamespace):
    """pynvml as far as it is used here: two GPUs, the second answered in bytes as old versions do."""

    NVMLError = RuntimeError

    def __init__(self, *, broken: str = "") -> None:
        super().__init__()
        self.broken = broken
        self.shut_down = False

    def nvmlInit(self) -> None:  # noqa: N802 (NVML's own name)
        if self.broken == "init":
            raise self.NVMLError("driver not loaded")

    def nvmlShutdown(self) -> None:  # noqa: N802 (NVML's own name)
        self.shut_down = True

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 (NVML's own name)
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802 (NVML's own name)
        if self.broken == "handle":
            raise self.NVMLError("GPU is lost")
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str | bytes:  # noqa: N802 (NVML's own name)
        return b"GPU-1" if handle else "GPU-0"

    def nvmlDeviceGetName(self, handle: int) -> str | bytes:  # noqa: N802 (NVML's own name)
        return b"Tester" if handle else "Tester"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802 (NVML's own name)
        return SimpleNamespace(total=(handle + 1) * 2**30, free=2**29)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: SimpleNamespace(name=name))
    return monkeypatch


def test_nvml_is_read(installed: pytest.MonkeyPatch) -> None:
    """The driver's library says the same things, in text or bytes."""
    nvml = FakeNvml()
    installed.setitem(sys.modules, "pynvml", nvml)
    assert devices_from_nvml() == (
        Device(0, "GPU-0", "Tester", 2**30, 2**29),
        Device(1, "GPU-1", "Tester", 2**31, 2**29),
    )
    assert nvml.shut_down


@pytest.mark.parametrize("broken", ["init", "handle"])
def test_broken_nvml_is_no_answer(installed: pytest.MonkeyPatch, broken: str) -> None:
    """nvidia-smi is asked then."""
    installed.setitem(sys.modules, "pynvml", FakeNvml(broken=broken))
    assert devices_from_nvml() is None


def test_without_the_library_nvidia_smi_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The base install has no pynvml."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    program = fake_nvidia_smi(tmp_path, f"cat <<'E'\n{H100}E")
    assert [device.uuid for device in probe_gpus(program)] == ["GPU-aaaa", "GPU-bbbb"]
