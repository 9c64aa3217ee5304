"""The machine: what this user's processes may have of it, and its name."""

import os
import platform
from pathlib import Path

import psutil
import pytest

from support.system.closed_folder import closed_folder
from torchdeck.agent.probe import system
from torchdeck.agent.probe.answer import Marks
from torchdeck.agent.probe.system import (
    bf16_flags,
    bf16_here,
    communication_variables,
    cpu_facts,
    disk_facts,
    infiniband_devices,
    main_memory,
    nearest,
    process_limits,
    system_facts,
    usable_cores,
)


def test_without_a_limit_it_is_the_machines(tmp_path: Path) -> None:
    """No cgroup, or one that says "max"."""
    assert main_memory(tmp_path / "absent")[0] == psutil.virtual_memory().total
    (tmp_path / "memory.max").write_text("max\n")
    total, free = main_memory(tmp_path)
    assert total == psutil.virtual_memory().total
    assert 0 < free < total


@pytest.mark.parametrize(
    ("stat", "free"), [("anon 5\ninactive_file 1048576\n", 2 * 2**20), ("anon 5\n", 2**20), ("", 2**20)]
)
def test_a_containers_limit_counts(tmp_path: Path, stat: str, free: int) -> None:
    """A container of 8 MiB that uses 7 has 1 left, and what it holds as idle file cache."""
    for name, text in {"memory.max": "8388608\n", "memory.current": "7340032\n", "memory.stat": stat}.items():
        (tmp_path / name).write_text(text)
    assert main_memory(tmp_path) == (8 * 2**20, free)


def test_a_container_over_its_limit_has_nothing_left(tmp_path: Path) -> None:
    """Never less than nothing."""
    for name, text in {"memory.max": "100\n", "memory.current": "200\n", "memory.stat": ""}.items():
        (tmp_path / name).write_text(text)
    assert main_memory(tmp_path) == (100, 0)


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("max 100000", None), ("100000 100000", 1), ("50000 100000", 1), ("garbage", None), ("1 0", None)],
)
def test_a_containers_quota_counts(tmp_path: Path, quota: str, expected: int | None) -> None:
    """A container with one core's quota has one core, whatever the machine has."""
    (tmp_path / "cpu.max").write_text(quota)
    assert usable_cores(tmp_path) == (expected or len(os.sched_getaffinity(0)))


def test_no_cgroup_is_no_quota(tmp_path: Path) -> None:
    """Older systems."""
    assert usable_cores(tmp_path / "absent") == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('ID=x\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n', "Debian GNU/Linux 12 (bookworm)"),
        ("PRETTY_NAME='Void'", "Void"),
        ('PRETTY_NAME=""', platform.system()),
        ("ID=x", platform.system()),
        (None, platform.system()),
    ],
)
def test_the_distribution_has_a_name(
    tmp_path: Path, text: str | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As os-release(5) says it, the second file where the first is not there; else the kernel's."""
    if text is not None:
        (tmp_path / "second").write_text(text)
    monkeypatch.setattr(system, "OS_RELEASE", (tmp_path / "first", tmp_path / "second"))
    assert system_facts()["os"] == name


def test_what_lies_in_a_folder_that_may_not_be_entered_is_not_there() -> None:
    """Its disk is told all the same: an error would hide all else that the node says of itself."""
    with closed_folder() as closed:
        assert nearest(closed / "a" / "b") == closed
        (disk,) = disk_facts([str(closed / "a")])
        assert Marks().see({"folder": str(closed), "names": ["a"]}) == {"seen": []}
    assert (disk["path"], disk["there"]) == (str(closed / "a"), False)
    assert disk["total"] > 0


def test_the_nearest_folder_is_the_one_that_is_there(tmp_path: Path) -> None:
    """Up to the root, or to a file in the way."""
    (tmp_path / "file").touch()
    assert nearest(tmp_path) == tmp_path
    assert nearest(tmp_path / "a" / "b") == tmp_path
    assert nearest(tmp_path / "file" / "b") == tmp_path / "file"


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (None, None),  # "Features" on ARM
        ("fpu sse2 avx2", []),
        ("fpu avx512f avx512_bf16_not", ["avx512f"]),
        ("amx_tile amx_bf16 avx512_bf16", ["avx512_bf16", "amx_bf16"]),
    ],
)
def test_instructions_for_bf16_are_whole_words_of_the_flags(
    flags: str | None, found: list[str] | None
) -> None:
    assert bf16_flags(flags) == found


def test_what_this_machines_processor_has_for_bf16() -> None:
    text = Path("/proc/cpuinfo").read_text()
    has = None if "\nflags" not in text else "avx512f" in text
    here = bf16_here()
    assert (None if here is None else "avx512f" in here) == has
    assert cpu_facts()["bf16"] == here


def test_limits_are_those_of_this_process() -> None:
    """None stands for no limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    said = process_limits()["open_files"]
    assert said == {
        "soft": None if soft == resource.RLIM_INFINITY else soft,
        "hard": None if hard == resource.RLIM_INFINITY else hard,
    }


def test_variables_of_nccls_files_and_of_the_environment(tmp_path: Path) -> None:
    """The environment wins over the user's file, and that over the system's; nothing else is reported."""
    (tmp_path / "system").write_text("NCCL_DEBUG=WARN\nNCCL_ALGO=Ring\n# NCCL_X\nPATH=/bin\n")
    (tmp_path / "user").write_text("NCCL_ALGO = Tree\n")
    environ = {"NCCL_DEBUG": "TRACE", "GLOO_SOCKET_IFNAME": "eth0", "SECRET": "s"}
    files = (tmp_path / "system", tmp_path / "user", tmp_path / "absent")
    assert communication_variables(environ, files) == {
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_ALGO": "Tree",
        "NCCL_DEBUG": "TRACE",
    }


def test_infiniband_devices_are_the_kernels(tmp_path: Path) -> None:
    """In the kernel's folder; none if there is no such folder."""
    for name in ("mlx5_1", "mlx5_0"):
        (tmp_path / name).mkdir()
    assert infiniband_devices(tmp_path) == ["mlx5_0", "mlx5_1"]
    assert infiniband_devices(tmp_path / "absent") == []
