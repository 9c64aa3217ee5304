"""The heartbeat of a real process that does nothing for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import wait_for_value, wait_until
from torchdeck.contract.doctor.rank_heartbeat import RankHeartbeat, read_rank_heartbeat
from torchdeck.contract.layout import AttemptLayout, RunLayout

pytestmark = pytest.mark.processes

CORE = Path(__file__).resolve().parents[3] / "core"
START = """
import sys
sys.path.insert(0, sys.argv[1])
from torchdeck.environment import rank_layout
from torchdeck.telemetry.doctor.rank_heartbeat import start_heartbeat
start_heartbeat(rank_layout())
"""


SLEEPING = """import time
def save_model():
    time.sleep(600)
print('torch' in sys.modules, flush=True)
save_model()
"""


def start(attempt: AttemptLayout, program: str) -> subprocess.Popen[str]:
    path = attempt.run.root / "program.py"
    path.write_text(START + program)
    ours = {"TORCHDECK_RUN_DIR": str(attempt.run.root), "TORCHDECK_ATTEMPT": "1", "RANK": "0"}
    return subprocess.Popen(
        [sys.executable, str(path), str(CORE)], env={**os.environ, **ours}, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptLayout:
    return RunLayout(tmp_path).attempt(1)


def beat_after(attempt: AttemptLayout, before: RankHeartbeat | None = None) -> RankHeartbeat:
    """The first heartbeat after `before`."""

    def newer() -> RankHeartbeat | None:
        found = read_rank_heartbeat(attempt.rank(0).heartbeat)
        return found if found is not None and (before is None or found.monotonic > before.monotonic) else None

    return wait_for_value(newer, 20, "another heartbeat")


def test_a_program_that_sleeps_says_where(attempt: AttemptLayout) -> None:
    """Function and line of its own code, also by request and by signal; torch is not imported for it."""
    process = start(attempt, SLEEPING)

    def asleep() -> RankHeartbeat | None:
        beat = beat_after(attempt)
        return beat if "save_model" in beat.place else None

    try:
        found = wait_for_value(asleep, 20, "the place")
        assert found.place == "program.py:9 save_model"
        assert (found.pid, found.enqueued, found.computes) == (process.pid, 0, False)
        folder = attempt.examination("1")
        folder.root.mkdir(parents=True)
        for number in range(2):
            folder.answer(0).unlink(missing_ok=True)
            attempt.rank(0).examine.write_text(f"{folder.root}\n{number}")
            wait_until(folder.answer(0).exists, 20, "an answer")
        answer = json.loads(folder.answer(0).read_text())
        assert answer["threads"][0]["frames"][0]["function"] == "save_model"
        os.kill(process.pid, found.signal)
        wait_until(lambda: "save_model" in attempt.rank(0).stacks.read_text(), 20, "stacks by faulthandler")
        assert process.poll() is None
    finally:
        process.kill()
        assert process.communicate()[0].split() == ["False"]


def test_it_continues_after_a_request_that_it_cannot_answer(tmp_path: Path) -> None:
    """Its folder, whose name is not UTF-8, comes later; and the recorder of torch has another format."""
    root = tmp_path / os.fsdecode(b"run\xff")
    root.mkdir()
    attempt = RunLayout(root).attempt(1)
    broken = """
from torchdeck.telemetry.doctor import rank_heartbeat
def summary(recorded):
    raise KeyError("process_group")
rank_heartbeat.summary = summary
"""
    process = start(attempt, broken + SLEEPING)
    try:
        beat = beat_after(attempt)
        folder = attempt.examination("1")
        attempt.rank(0).examine.write_bytes(os.fsencode(folder.root) + b"\n1")
        for _ in range(2):
            beat = beat_after(attempt, beat)
        folder.root.mkdir(parents=True)
        attempt.rank(0).examine.write_bytes(os.fsencode(folder.root) + b"\n2")
        wait_until(folder.answer(0).exists, 20, "an answer")
        assert json.loads(folder.answer(0).read_text())["threads"]
    finally:
        process.kill()
        process.communicate()


def test_a_heartbeat_that_fails_for_good_leaves_no_file(attempt: AttemptLayout) -> None:
    """The rank would look as if it had stopped."""
    broken = """
from torchdeck.telemetry.doctor.rank_heartbeat import RankHeartbeatThread
def beat(self):
    raise OSError("no space left")
RankHeartbeatThread.beat = beat
print("broken", flush=True)
"""
    process = start(attempt, broken + SLEEPING)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "broken\n"
        wait_until(lambda: not attempt.rank(0).heartbeat.exists(), 20, "no heartbeat")
    finally:
        process.kill()
        process.communicate()


def test_it_ends_with_the_program_and_survives_a_fork(attempt: AttemptLayout) -> None:
    """A forked child neither hangs nor writes; the exit code and the output are the program's."""
    program = """
import os, time
time.sleep(1.5)
for _ in range(50):
    child = os.fork()
    if not child:
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
sys.exit(7)
"""
    process = start(attempt, program)
    assert process.wait(60) == 7
    found = read_rank_heartbeat(attempt.rank(0).heartbeat)
    assert found is not None
    assert found.pid == process.pid
    process.communicate()


def test_a_fork_does_not_wait_for_a_recorder_that_hangs(attempt: AttemptLayout) -> None:
    """torch may wait in it for ever. A child's own forks do not wait at all."""
    program = """
import os, threading, time
from torchdeck.telemetry.doctor import rank_heartbeat
begun = threading.Event()
def counts():
    begun.set()
    threading.Event().wait()
rank_heartbeat.counts = counts
begun.wait()
child = os.fork()
if not child:
    forked = time.monotonic()
    for _ in range(20):
        grandchild = os.fork()
        if not grandchild:
            os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) == 3
    os._exit(4 if time.monotonic() - forked < 20 else 5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
os._exit(7)
"""
    process = start(attempt, program)
    try:
        assert process.wait(40) == 7
    finally:
        process.kill()
        process.communicate()


def test_a_signal_that_the_program_uses_itself_is_left_alone(attempt: AttemptLayout) -> None:
    program = f"""
import signal, time
time.sleep(1.2)
signal.signal({int(signal.SIGRTMIN) + 9}, lambda *_: None)
while True:
    time.sleep(0.1)
"""
    process = start(attempt, program)
    try:
        assert beat_after(attempt).signal
        wait_until(lambda: not beat_after(attempt).signal, 20, "a heartbeat without a signal")
    finally:
        process.kill()
        process.communicate()


def test_a_folder_that_cannot_be_written_disturbs_nothing(attempt: AttemptLayout) -> None:
    attempt.ranks.mkdir(parents=True)
    attempt.rank(0).root.write_text("a file in its place")
    process = start(attempt, "print('trained')")
    assert process.communicate(timeout=60)[0] == "trained\n"
    assert process.returncode == 0


def test_what_is_left_of_a_crash_has_the_last_collective_of_each_group(
    attempt: AttemptLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the groups' names, which are the same on all ranks."""
    pytest.importorskip("torch")
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "100")
    program = f"""
import os, time
import torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="file://{attempt.run.root}/store", rank=0, world_size=1)
groups = [dist.new_group([0]) for _ in range(2)]
for count, group in ((3, None), (5, groups[1])):
    for _ in range(count):
        dist.all_reduce(torch.ones(2), group=group)
print("done", flush=True)
time.sleep(600)
"""
    process = start(attempt, program)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"

        def counted() -> bool:
            return len(beat_after(attempt).by_group) == 2

        wait_until(counted, 40, "both groups")
    finally:
        process.kill()
        process.communicate()
    left = read_rank_heartbeat(attempt.rank(0).heartbeat)
    assert left is not None
    assert sorted((each.group, each.enqueued) for each in left.by_group) == [("0", 3), ("2", 5)]
    assert all(each.completed <= each.enqueued for each in left.by_group), "gloo notes completion late"
    assert (left.enqueued, left.groups) == (8, 2)
