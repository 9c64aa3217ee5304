"""What the probe reads out of files and programs, by values."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchdeck.agent import gpus
from torchdeck.agent.probe import answer, pythons, run_folders, system


def test_versions_come_from_the_names_of_metadata(tmp_path: Path) -> None:
    """The first folder that has a package counts, as when it is imported; torch says its CUDA in a file."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, names in (
        (
            first,
            [
                "torch-2.13.0+cu128.dist-info",
                "nvidia_nccl_cu12-2.27.3.dist-info",
                "torchvision-0.1.dist-info",
            ],
        ),
        (second, ["torch-1.0.dist-info", "numpy-2.4.6.dist-info", "DeepSpeed-0.19.8-py3.11.egg-info"]),
    ):
        for name in names:
            (folder / name).mkdir(parents=True)
    (first / "torch").mkdir()
    (first / "torch" / "version.py").write_text("__version__ = '2.13.0+cu128'\ncuda: str | None = '12.8'\n")
    assert pythons.versions([str(tmp_path / "no such"), str(first), str(second)]) == {
        "torch": "2.13.0+cu128",
        "numpy": "2.4.6",
        "deepspeed": "0.19.8",
        "nccl": "2.27.3",
    }
    assert pythons.cuda_of_torch([str(second), str(first)]) == "12.8"


@pytest.mark.parametrize("text", ["cuda = None", "cuda: str = None", "x = 1", "", "cuda = ("])
def test_a_torch_for_the_cpu_has_no_cuda(tmp_path: Path, text: str) -> None:
    """As CPU builds have it; and a file that cannot be read says nothing."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text(text)
    assert pythons.cuda_of_torch([str(tmp_path)]) is None


def test_rows_that_are_none_are_passed_over() -> None:
    """nvidia-smi prints sentences, too; a name may hold commas."""
    text = "No devices were found\n0, GPU-a, 10, [N/A], 1.2, A, B\nx, y\n"
    assert gpus.parse_listed(text) == [gpus.ListedGpu(0, "GPU-a", 10 * 2**20, None, "1.2", "A, B")]
    unknown = "3, GPU-x, [N/A], [N/A], 1.2, A\n"
    assert gpus.parse_listed(unknown) == [gpus.ListedGpu(3, "GPU-x", 0, None, "1.2", "A")]
    assert gpus.users("GPU-a, 12, [N/A]\n[No Processes]\n") == [{"uuid": "GPU-a", "pid": 12, "memory": None}]


@pytest.mark.processes
def test_a_driver_that_hangs_is_said(tmp_path: Path) -> None:
    """The answer comes all the same."""
    script = tmp_path / "smi"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    assert "within 0.2 s" in gpus.gpu_facts(str(script), 0.2)["error"]


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        ({"logind.conf": "KillUserProcesses=yes\nKillExcludeUsers="}, True),
        ({"logind.conf": "#KillUserProcesses=yes"}, False),
        (
            {
                "logind.conf": "KillUserProcesses=yes\nKillExcludeUsers=",
                "logind.conf.d/a.conf": "KillUserProcesses=no",
            },
            False,
        ),
        ({}, False),
    ],
)
def test_a_login_system_that_kills_is_known(
    tmp_path: Path, files: dict[str, str], kills: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KillUserProcesses as logind.conf(5) reads its files; a user who lingers is spared."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"[Login]\n{text}\n")
    monkeypatch.setattr(system, "SYSTEMD", tmp_path)
    assert system.kills_after_logout(tmp_path, tmp_path / "linger") is kills
    (tmp_path / "linger").mkdir()
    (tmp_path / "linger" / system.system_facts()["user"]).touch()
    assert system.kills_after_logout(tmp_path, tmp_path / "linger") is False


@pytest.mark.timeout(20)
def test_a_named_pipe_in_place_of_torchs_version_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    os.mkfifo(tmp_path / "torch/version.py")
    assert pythons.cuda_of_torch([str(tmp_path)]) is None


@pytest.mark.timeout(20)
@pytest.mark.parametrize("asked", [run_folders.read, run_folders.digest])
def test_named_pipes_and_devices_are_not_pulled(
    tmp_path: Path, asked: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """A program may replace a file after it was listed."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            asked({"path": str(path), "at": 0, "size": 10})


@pytest.mark.timeout(20)
def test_files_of_the_kernel_have_no_hash(tmp_path: Path) -> None:
    """Some of them never end."""
    (tmp_path / "data").write_bytes(b"x")
    paths = [str(tmp_path / "data"), "/proc/self/status", "/dev/zero"]
    hashes = [bool(each["sha256"]) for each in answer.seen({"paths": paths})["seen"]]
    assert hashes == [True, False, False]
