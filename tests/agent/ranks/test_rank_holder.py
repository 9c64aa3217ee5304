"""The shell script around each rank."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.agents.agent_run import CORE
from support.waiting import wait_until
from torchdeck.agent.ranks.failures import read_exit
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.rank_layout import RankLayout

pytestmark = pytest.mark.processes

SCRIPT = CORE / "torchdeck/agent/processes/rank_holder.sh"


def start(root: Path, *command: str) -> tuple[subprocess.Popen[bytes], RankLayout]:
    env = {**os.environ, "TORCHDECK_RUN_DIR": str(root), "TORCHDECK_ATTEMPT": "1", "RANK": "3"}
    process = subprocess.Popen(["/bin/sh", str(SCRIPT), *command], env=env, start_new_session=True)
    return process, RunLayout(root).attempt(1).rank(3)


@pytest.mark.parametrize("folder", ["plain", "with a space", "quote'and\"quote", "dollar$HOME", "-dash*"])
def test_code_and_output_are_kept_whatever_the_path(tmp_path: Path, folder: str) -> None:
    """Exit code, stdout and stderr in the rank's folder, which only its owner can read."""
    root = tmp_path / folder
    program = "import sys; print('out', sys.argv[1:]); print('err', file=sys.stderr); sys.exit(7)"
    process, rank = start(root, sys.executable, "-c", program, "a b", "$x", "*")
    assert process.wait(20) == 7
    assert read_exit(rank.exit) == 7
    assert rank.stdout.read_text() == "out ['a b', '$x', '*']\n"
    assert rank.stderr.read_text() == "err\n"
    assert rank.stdout.stat().st_mode & 0o777 == 0o600
    assert rank.root.stat().st_mode & 0o777 == 0o700


def test_rank_gets_the_umask_of_the_launching_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHDECK_UMASK", "0027")
    process, rank = start(tmp_path, "sh", "-c", "umask; echo ${TORCHDECK_UMASK-gone}")
    assert process.wait(20) == 0
    assert rank.stdout.read_text() == "0027\ngone\n"
    assert rank.stdout.stat().st_mode & 0o777 == 0o600
    assert rank.exit.stat().st_mode & 0o777 == 0o600


def test_a_group_signal_still_leaves_an_exit_file(tmp_path: Path) -> None:
    """SIGTERM to the whole group, as torchrun sends it: the rank dies of it, the shim writes 143."""
    process, rank = start(tmp_path, "sleep", "60")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

    def is_up() -> bool:
        """Between fork and exec it is a shell yet, which would take the signal for itself."""
        found = children.read_text().split()
        return bool(found) and Path(f"/proc/{found[0]}/comm").read_text() == "sleep\n"

    wait_until(lambda: rank.holder.exists() and is_up(), 20, "the rank")
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(10) == 143
    assert read_exit(rank.exit) == 143


def test_a_group_signal_at_the_moment_of_the_fork_ends_the_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell drops a signal while it forks; the file that the agent writes before it makes up for that.

    Aimed at the first millisecond after the shell has begun, in which more than half of the signals are lost.
    """
    monkeypatch.setenv("TORCHDECK_NODE", "here")
    for number in range(40):
        root = tmp_path / str(number)
        ending = RunLayout(root).attempt(1).node("here").ending
        ending.parent.mkdir(parents=True)
        process, rank = start(root, "sleep", "60")
        limit = time.monotonic() + 20
        while not rank.holder.exists() and time.monotonic() < limit:
            pass  # without a pause: this is the moment
        due = time.perf_counter() + number * 25e-6
        while time.perf_counter() < due:
            pass
        ending.touch()
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(20) in (143, -signal.SIGTERM)


@pytest.mark.parametrize(("text", "code"), [("kill -TERM $$", 143), ("kill -KILL $$", 137), ("no-such", 127)])
def test_the_shell_adds_nothing_to_the_ranks_output(tmp_path: Path, text: str, code: int) -> None:
    """A shell's own "Terminated" is not in stderr.log; what the rank and its shell say of errors is."""
    process, rank = start(tmp_path, *(["sh", "-c", f"echo mine >&2; {text}"] if code != 127 else [text]))
    assert process.wait(20) == code
    said = rank.stderr.read_text()
    assert ("no-such" in said) if code == 127 else (said == "mine\n")


def test_the_rank_does_not_inherit_the_trap(tmp_path: Path) -> None:
    """A rank's own handlers work, and its default for SIGTERM is the kernel's."""
    program = "import signal; print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)"
    process, rank = start(tmp_path, sys.executable, "-c", program)
    assert process.wait(20) == 0
    assert rank.stdout.read_text() == "True\n"


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """The rank is not started without a place for its output."""
    (tmp_path / "attempts").write_text("a file")
    process, _ = start(tmp_path, "touch", str(tmp_path / "ran"))
    assert process.wait(10) == 125
    assert not (tmp_path / "ran").exists()
