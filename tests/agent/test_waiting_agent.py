"""An agent that is not handed what it should be."""

import subprocess
import sys
from pathlib import Path

import pytest

ONE = """
import sys
from torchdeck.agent import __main__ as agent, handover
handover.READ_LIMIT = 0.1
sys.exit(agent.main(sys.argv[1:]))
"""


def test_nothing_that_comes_is_not_waited_for(tmp_path: Path) -> None:
    """Not even the end of its standard input; the journal is not begun."""
    argv = [sys.executable, "-c", ONE, "--run-dir", str(tmp_path / "run"), "--node", "a"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.wait(60) == 2  # its standard input is still open
        told = process.stderr.read()
    assert "nothing came" in told
    assert not list(tmp_path.rglob("journal.jsonl"))


@pytest.mark.parametrize(
    ("sent", "said"), [(b'{"token": ', "did not end within"), (b"x" * (3 * 2**19), "more than 1024 KiB")]
)
def test_a_line_that_does_not_end_is_not_waited_for(tmp_path: Path, sent: bytes, said: str) -> None:
    """Who writes it is stuck, or is no Torchdeck; the lock is not taken meanwhile."""
    argv = [sys.executable, "-c", ONE, "--run-dir", str(tmp_path / "run"), "--node", "a"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        rest = memoryview(sent)
        while rest:
            try:
                rest = rest[process.stdin.write(rest) or 0 :]
            except BrokenPipeError:
                break  # it has read enough
        assert process.wait(60) == 2
        told = process.stderr.read().decode()
    assert said in told
    assert not list(tmp_path.rglob("agent.lock"))
