"""Evidence on real processes that have no heartbeat."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.waiting import wait_for_value, wait_until
from torchdeck.agent.doctor import proc
from torchdeck.agent.doctor.evidence import Collective, Frame, RankEvidence
from torchdeck.agent.doctor.evidence_limit import plain
from torchdeck.agent.doctor.examiner import SECOND_LOOK, Examined, Examiner
from torchdeck.agent.doctor.stalls import Standing
from torchdeck.contract.doctor.rank_heartbeat import GroupCounts, RankHeartbeat
from torchdeck.contract.layout import AttemptLayout, RunLayout
from torchdeck.contract.run_states import RankPhase

pytestmark = pytest.mark.processes

# until its child has executed another program, which a FIFO prevents, posix_spawn holds its caller in state D
BLOCKED = """
import os, sys, time
sys.stdin.read(1)
read = (os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)
os.posix_spawn("/bin/true", ["true"], {}, file_actions=[read])
time.sleep(600)
"""


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptLayout:
    return RunLayout(tmp_path).attempt(1)


@pytest.fixture
def blocked(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is in state D once it has read a byte, until its FIFO is written to."""
    os.mkfifo(tmp_path / "fifo")
    words = [sys.executable, "-c", BLOCKED, str(tmp_path / "fifo")]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
    yield child
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def block(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    child.stdin.write(b"x")
    child.stdin.flush()
    wait_until(lambda: proc.state(child.pid) == "D", 20, "state D")


def examined(
    attempt: AttemptLayout,
    pid: int,
    meanwhile: Callable[[], None] = lambda: None,
    beat: RankHeartbeat | None = None,
) -> RankEvidence:
    """The evidence on one rank; `meanwhile` is called after the first look."""
    standing = Standing(0, RankPhase.RUNNING, 0, 0.0, None, watched=False, pid=pid, beat=beat)
    examiner = Examiner(attempt, {})
    examiner.begin("1", {0: standing}, {}, 0.0)
    meanwhile()
    clock = itertools.count(1)

    def polled() -> Examined | None:
        now = next(clock) * SECOND_LOOK / 10
        examiner.looked(now)
        return examiner.poll({0: standing}, {}, {}, now)

    return wait_for_value(polled, 30, "the evidence").ranks[0]


def test_without_a_stack_the_kernel_tells_where_a_process_waits(attempt: AttemptLayout) -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            wait_until(lambda: "nanosleep" in proc.wait_channel(child.pid), 20, "it to sleep")
            found = examined(attempt, child.pid)
        finally:
            child.kill()
    assert (found.known, found.frames, found.blocked) == (False, (), False)
    assert found.kernel == "hrtimer_nanosleep"


def test_a_process_that_stays_in_state_d_is_blocked(
    attempt: AttemptLayout, blocked: subprocess.Popen[bytes]
) -> None:
    block(blocked)
    found = examined(attempt, blocked.pid)
    assert (found.state, found.blocked) == ("D", True)
    assert found.kernel


def test_a_process_that_was_in_state_d_once_is_not_blocked(
    attempt: AttemptLayout, blocked: subprocess.Popen[bytes]
) -> None:
    found = examined(attempt, blocked.pid, lambda: block(blocked))
    assert (found.state, found.blocked) == ("D", False)


ANSWER = {
    "threads": [
        {
            "main": False,
            "name": "worker 100",
            "frames": [{"file": "/code/w.py", "line": 3, "function": "wait"}],
        }
    ],
    "collectives": [
        {"group": "0", "sequence": 7, "operation": "gloo:all_reduce", "shapes": "[[4]]", "types": "Float"}
    ],
    "groups": [],
}
"""Of a rank of so many threads that faulthandler leaves out the main thread."""
CALLS = (Collective("0", 7, "gloo:all_reduce", "[[4]]", "Float"),)


def _write(answer: Path) -> None:
    answer.write_text(json.dumps(ANSWER))


@pytest.mark.parametrize("installed", [False, True])
def test_an_answer_without_the_main_thread_takes_its_stack_from_py_spy(
    attempt: AttemptLayout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, installed: bool
) -> None:
    """If it is installed. Another thread's stack is not taken for the main thread's."""
    pid = os.getpid()
    frames = [{"filename": "/code/train.py", "line": 84, "name": "save_model"}]
    (tmp_path / "output").write_text(json.dumps([{"os_thread_id": pid, "frames": frames}]))
    if installed:
        program = tmp_path / "py-spy"
        program.write_text(f"#!/bin/sh\nexec /bin/cat {tmp_path}/output\n")
        program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = attempt.examination("1").answer(0)
    beat = RankHeartbeat(pid, 1.0, signal=int(signal.SIGRTMIN) + 9)
    found = examined(attempt, pid, lambda: _write(answer), beat)
    assert found.source == ("py-spy" if installed else "rank")
    assert found.frames == ((Frame("/code/train.py", 84, "save_model"),) if installed else ())
    assert (found.collectives, found.known, found.beating) == (CALLS, True, True)


def test_the_last_collectives_of_a_process_that_is_gone_are_those_of_its_heartbeat(
    attempt: AttemptLayout,
) -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        beat = RankHeartbeat(child.pid, 1.0, by_group=(GroupCounts("0", 1204, 1203),))
        alive = examined(attempt, child.pid, beat=beat)
        child.kill()
    gone = examined(attempt, child.pid, beat=beat)
    assert (alive.state, alive.counts) == ("S", ())
    assert (gone.state, gone.counts) == ("gone", beat.by_group)
    assert plain(gone)["counts"] == [{"group": "0", "enqueued": 1204, "completed": 1203}]
