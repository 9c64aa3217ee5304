"""Runs that really fail, and what `runs show` says to do about it."""

from pathlib import Path

import pytest

from support.agents.controlled_run import nothing_left
from support.cli.command import Command

SCRIPT = """\
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=3))
kind, rank = sys.argv[1], dist.get_rank()
if kind == "memory" and rank == 1:
    torch.empty(1 << 50)
if kind == "late" and rank == 1:
    time.sleep(5)
if kind == "own":
    raise KeyError("my own mistake")
dist.all_reduce(torch.ones(1))
"""


@pytest.mark.soak  # test_headless.py shows one; tests/runs/failures/test_troubleshooting.py reads each line
@pytest.mark.parametrize(
    ("kind", "title", "line"),
    [
        ("memory", "Out of memory on the machine", "DefaultCPUAllocator: can't allocate memory"),
        ("late", "Timeout while waiting for peers", "Timed out waiting 3000ms for recv operation"),
    ],
)
def test_what_a_failed_run_shows_is_answered(tmp_path: Path, kind: str, title: str, line: str) -> None:
    """The rank and the line that were recognised, and the chapter's answer, as text and as JSON."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = Command(tmp_path / "home")
    with nothing_left(command.home):
        assert command.run("--no-gui", "--script", script, "--nproc", "2", "--", kind).returncode == 1
    shown = command.run("runs", "show", "latest").stdout
    assert f"\n  {title}\n" in shown, shown
    assert line in shown
    advice = command.json("runs", "show", "latest")["advice"]
    assert (advice["title"], advice["where"]) == (title, "rank 1" if kind == "memory" else "rank 0")


@pytest.mark.soak  # tests/integration/test_headless.py is led to one's line, too
def test_a_mistake_of_ones_own_is_led_to(tmp_path: Path) -> None:
    """To its file and line, not to another rank that lost its connection for it."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = Command(tmp_path / "home")
    with nothing_left(command.home):
        assert command.run("--no-gui", "--script", script, "--nproc", "2", "--", "own").returncode == 1
    advice = command.json("runs", "show", "latest")["advice"]
    assert advice["title"] == "An exception in train.py"
    line = next(number for number, text in enumerate(SCRIPT.splitlines(), 1) if "KeyError" in text)
    assert advice["text"].startswith(f"KeyError at line {line} of train.py: fix it there.")
