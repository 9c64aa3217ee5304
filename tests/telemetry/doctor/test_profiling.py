"""Profiles of real processes, which go on as if there were none."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.waiting import wait_until
from torchdeck.contract.doctor.rank_profile import ProfileOrder, order_text
from torchdeck.contract.layout import AttemptLayout, RunLayout
from torchdeck.contract.rank_layout import ProfileLayout

pytest.importorskip("torch")
pytestmark = pytest.mark.processes

CORE = Path(__file__).resolve().parents[3] / "core"
START = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from torchdeck.environment import rank_layout
from torchdeck.telemetry.doctor.rank_heartbeat import start_heartbeat
start_heartbeat(rank_layout())
import torch
matrix = torch.randn(64, 64)
ending = sys.argv[2]
open(ending + "less", "w").close()
def step():
    (matrix @ matrix).relu()
    return not os.path.exists(ending)
"""
STEPS = "while step(): pass\nprint('ended', flush=True)\n"


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptLayout:
    return RunLayout(tmp_path).attempt(1)


@contextmanager
def running(attempt: AttemptLayout, program: str) -> Iterator[subprocess.Popen[str]]:
    """The program has a heartbeat; it is asked to end afterwards, and must do so well."""
    path, ending = attempt.run.root / "program.py", attempt.run.root / "end"
    path.write_text(START + program)
    ours = {"TORCHDECK_RUN_DIR": str(attempt.run.root), "TORCHDECK_ATTEMPT": "1", "RANK": "0"}
    process = subprocess.Popen(
        [sys.executable, str(path), str(CORE), str(ending)],
        env={**os.environ, **ours},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_until((attempt.run.root / "endless").exists, 60, "the first step")
        yield process
        ending.touch()
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, said
        assert "ended" in said
    finally:
        process.kill()
        process.communicate()


def order(attempt: AttemptLayout, number: int, seconds: float) -> ProfileLayout:
    files = attempt.profile(f"{number}-profile-ab")
    files.root.mkdir(parents=True)
    attempt.rank(0).profile.write_text(order_text(ProfileOrder(files.root, seconds)))
    return files


def events(files: ProfileLayout) -> list[Any]:
    with gzip.open(files.trace(0), "rt") as file:
        return list(json.load(file)["traceEvents"])


def why(path: Path, name: str) -> str:
    return str(json.loads(path.read_text())[name])


def test_a_trace_of_the_main_thread_each_time(attempt: AttemptLayout) -> None:
    """The heartbeat's thread asks for it; two profiles follow each other, and nothing else is left."""
    with running(attempt, STEPS) as process:
        for number in (1, 2):
            files = order(attempt, number, 0.5)
            wait_until(files.summary(0).exists, 60, "a trace")
            found = [each for each in events(files) if each.get("name") == "aten::mm"]
            assert {each["tid"] for each in found} == {process.pid}
            assert why(files.summary(0), "early") == ""
            assert sorted(path.name for path in files.root.iterdir()) == ["0.json", "0.trace.json.gz"]
        assert process.poll() is None


OWN = """
while not torch.autograd.profiler._is_profiler_enabled: step()
for _ in range(1000): step()
from torch.profiler import profile
with profile() as own:
    for _ in range(100): step()
assert any(each.name == "aten::mm" for each in own.events())
print("profiled", flush=True)
del own
"""


def test_a_program_that_begins_its_own_profile_ends_ours(attempt: AttemptLayout) -> None:
    """Both are complete. Two at once would crash the process."""
    with running(attempt, OWN + STEPS):
        files = order(attempt, 1, 30.0)
        wait_until(files.summary(0).exists, 60, "a trace")
        assert why(files.summary(0), "early") == "the program started torch.profiler itself"
        assert any(each.get("name") == "aten::mm" for each in events(files))


def test_a_program_with_a_profiler_is_left_alone(attempt: AttemptLayout) -> None:
    """Also one that waits for its first step, which no flag of torch shows."""
    waiting = """
from torch.profiler import profile, schedule
with profile(schedule=schedule(wait=10**9, warmup=1, active=1)) as own:
    own.step()
    while step(): pass
print('ended', flush=True)
"""
    with running(attempt, waiting):
        files = order(attempt, 1, 0.5)
        wait_until(files.refusal(0).exists, 60, "a refusal")
        assert why(files.refusal(0), "why") == "the program uses torch.profiler itself"
        assert not files.trace(0).exists()


def test_a_fork_ends_the_recording(attempt: AttemptLayout) -> None:
    """A child would record until its end."""
    forking = """
while not torch.autograd.profiler._is_profiler_enabled: step()
for _ in range(1000): step()
child = os.fork()
if child == 0:
    torch.zeros(1) + 1
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    with running(attempt, forking + STEPS):
        files = order(attempt, 1, 30.0)
        wait_until(files.summary(0).exists, 60, "a trace")
        assert why(files.summary(0), "early") == "the program forked, or ended"
        assert events(files)


def test_an_order_for_another_place_is_ignored(attempt: AttemptLayout, tmp_path: Path) -> None:
    """The next one is not; a program that ends while it is recorded ends well."""
    with running(attempt, STEPS):
        outside = ProfileLayout(tmp_path / "elsewhere" / "profiles" / "1-profile-ab")
        outside.root.mkdir(parents=True)
        attempt.rank(0).profile.write_text(order_text(ProfileOrder(outside.root, 0.5)))
        files = order(attempt, 2, 0.5)
        wait_until(files.summary(0).exists, 60, "a trace")
        assert list(outside.root.iterdir()) == []
        order(attempt, 3, 30.0)
        wait_until(lambda: (attempt.run.root / "attempts").exists(), 5, "the attempt")
