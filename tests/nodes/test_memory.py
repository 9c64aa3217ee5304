"""Main memory of this machine."""

from pathlib import Path

import psutil
import pytest

from torchdeck.nodes.memory import main_memory


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
