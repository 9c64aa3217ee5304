"""A child and all that it started: heard, waited for and ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import wait_until
from torchdeck.agent.processes.child_process import ChildProcess
from torchdeck.contract.processes import read_stat

pytestmark = pytest.mark.processes


def child(code: str, *, stdin: int = subprocess.DEVNULL, stdout: int = subprocess.DEVNULL) -> ChildProcess:
    return ChildProcess([sys.executable, "-I", "-c", code], stdin=stdin, stdout=stdout)


@pytest.mark.parametrize(
    ("code", "expected"),
    [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL)],
)
def test_exit_code(code: str, expected: int) -> None:
    """As often as it is asked for, before and after the child is reaped."""
    process = child(code)
    assert process.exit_code(20) == expected
    process.end()
    assert process.exit_code() == expected


def test_lines_and_silence() -> None:
    """Whole lines as they come; too long without any is an error of the caller's to tell."""
    process = child("import time; print('a', flush=True); time.sleep(60)", stdout=subprocess.PIPE)
    lines = process.lines(20)
    assert next(lines) == b"a"
    with pytest.raises(TimeoutError):
        next(process.lines(0.05))
    assert process.exit_code() is None
    process.end()
    assert process.exit_code() == -signal.SIGKILL


def test_the_end_of_its_input_is_a_request() -> None:
    """It ends by itself within the grace."""
    process = child("import sys; sys.stdin.read(); raise SystemExit(7)", stdin=subprocess.PIPE)
    process.send(b"anything")
    process.end(grace=20)
    assert process.exit_code() == 7


def test_what_does_not_end_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    """SIGTERM is ignored by the child, and its own child never got any."""
    ready = tmp_path / "pid"
    code = f"""
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
inner = subprocess.Popen([sys.executable, "-I", "-c", "import time; time.sleep(600)"])
open({str(ready)!r}, "w").write(f"{{inner.pid}}\\n")
time.sleep(600)
"""
    process = child(code)
    wait_until(lambda: ready.exists() and ready.read_text().endswith("\n"), 20, "its child to be started")
    inner = int(ready.read_text())
    process.end(signal.SIGTERM, 0.2)
    assert process.exit_code() == -signal.SIGKILL
    wait_until(lambda: is_gone(inner), 20, "the child's child to be killed")


def is_gone(pid: int) -> bool:
    """No process has the number, or what has it is dead."""
    stat = read_stat(pid)
    return stat is None or stat.state == "Z"
