"""The system of this machine."""

import platform
from pathlib import Path

import pytest

from fakes.nvidia_smi import H100, fake_nvidia_smi
from torchdeck.nodes.this_machine import driver_of_kernel, driver_of_smi, probe_software

NOWHERE = Path("/nowhere/version")


def test_this_machine() -> None:
    """What the kernel itself says, and a distribution with a name."""
    facts = probe_software()
    assert facts.kernel == Path("/proc/sys/kernel/osrelease").read_text().strip()
    assert facts.machine == platform.machine()
    assert facts.system
    assert (facts.driver is None) == (not Path("/sys/module/nvidia").exists())


def test_the_kernel_names_the_driver(tmp_path: Path) -> None:
    """Where it does, nvidia-smi is not started."""
    (tmp_path / "version").write_text("550.54.15\n")
    smi = fake_nvidia_smi(tmp_path, 'touch "$(dirname "$0")/started"; echo 1.2')
    assert probe_software(driver_file=tmp_path / "version", smi=smi).driver == "550.54.15"
    assert not (tmp_path / "started").exists()


@pytest.mark.processes
def test_else_nvidia_smi_does(tmp_path: Path) -> None:
    """In the row of every GPU."""
    smi = fake_nvidia_smi(tmp_path, f"cat <<'E'\n{H100}E")
    assert probe_software(driver_file=NOWHERE, smi=smi).driver == "535.1.2"


@pytest.mark.processes
@pytest.mark.parametrize(
    "body",
    [
        "exit 9",
        "echo 'No devices were found'",
        f"cat <<'E'\n{H100}E\nexit 1",
        "echo '0, GPU-a, 1, 1, [N/A], A'",
        "",
        "exec sleep 60",
    ],
)
def test_a_driver_in_trouble_is_none(tmp_path: Path, body: str) -> None:
    """Complaints are no versions, and who hangs is not waited for."""
    assert driver_of_smi(fake_nvidia_smi(tmp_path, body), 0.3) is None


def test_no_driver(tmp_path: Path) -> None:
    """Most laptops; and a file that says nothing."""
    assert driver_of_smi(str(tmp_path / "nvidia-smi"), 5) is None
    (tmp_path / "version").write_bytes(b"\xff\n")
    assert driver_of_kernel(tmp_path / "version") is None
