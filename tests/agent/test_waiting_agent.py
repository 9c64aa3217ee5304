"""An agent that is not handed what it should be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

ONE = """
import sys
from torchdeck.agent.attempt import handover
from torchdeck.agent import __main__ as agent
handover.READ_LIMIT = float(sys.argv[1])
sys.exit(agent.main(sys.argv[2:]))
"""


def argv(folder: Path, seconds: float) -> list[str]:
    """Of an agent that waits for so long."""
    return [sys.executable, "-c", ONE, str(seconds), "--run-dir", str(folder / "run"), "--node", "a"]


def test_nothing_that_comes_is_not_waited_for(tmp_path: Path) -> None:
    """Not even the end of its standard input; the journal is not begun."""
    with subprocess.Popen(
        argv(tmp_path, 0.1), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.wait(60) == 2  # its standard input is still open
        told = process.stderr.read()
    assert "standard input was silent" in told
    assert not list(tmp_path.rglob("journal.jsonl"))


def test_a_line_that_does_not_end_is_not_waited_for(tmp_path: Path) -> None:
    """Who writes it is stuck; the lock is not taken meanwhile."""
    reading, writing = os.pipe()
    os.write(
        writing, b'{"token": '
    )  # before there is who reads it, and could wait without success for its beginning
    with subprocess.Popen(argv(tmp_path, 0.1), stdin=reading, stderr=subprocess.PIPE, text=True) as process:
        os.close(reading)
        assert process.stderr is not None
        assert process.wait(60) == 2
        told = process.stderr.read()
    os.close(writing)
    assert "did not end within" in told
    assert not list(tmp_path.rglob("agent.lock"))


def test_a_line_that_is_too_long_is_not_read_to_its_end(tmp_path: Path) -> None:
    """Who writes it is no Torchdeck."""
    rest = memoryview(b"x" * (3 * 2**19))
    with subprocess.Popen(
        argv(tmp_path, 60.0), stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        while rest:
            try:
                rest = rest[process.stdin.write(rest) or 0 :]
            except BrokenPipeError:
                break  # it has read enough
        assert process.wait(60) == 2
        told = process.stderr.read().decode()
    assert "more than 1024 KiB" in told
    assert not list(tmp_path.rglob("agent.lock"))
