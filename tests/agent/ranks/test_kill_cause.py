"""Who killed a rank: the kernel's counts, its log, and the memory that was left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from torchdeck.agent.ranks import kill_cause
from torchdeck.agent.ranks.failures import fatal_stack, rank_failure, without_fatal
from torchdeck.agent.ranks.kill_cause import (
    Cause,
    Kills,
    KillWitness,
    Room,
    judge,
    loader_worker,
    with_kill_cause,
)
from torchdeck.contract.layout import AttemptLayout

GIB = 1 << 30
PLENTY, FEW = Room(0.0, 18 * GIB, 24 * GIB), Room(0.0, GIB, 24 * GIB)
NONE = Kills(0, 0)


@pytest.mark.parametrize(
    ("before", "after", "log", "least", "cause"),
    [
        (NONE, NONE, "", PLENTY, Cause.OTHER),
        (None, Kills(5, 3), "", PLENTY, Cause.OTHER),
        (Kills(None, None), Kills(None, None), "", PLENTY, Cause.OTHER),
        (NONE, Kills(1, 0), "", PLENTY, Cause.OTHER),
        (NONE, Kills(1, 1), "", PLENTY, Cause.MEMORY),
        (NONE, NONE, "Out of memory: Killed process 7 (python)", FEW, Cause.MEMORY),
        (NONE, NONE, "", FEW, Cause.LOW_MEMORY),
        (None, NONE, "", None, Cause.UNKNOWN),
    ],
)
def test_the_cause_follows_from_the_evidence(
    before: Kills | None, after: Kills, log: str, least: Room | None, cause: Cause
) -> None:
    """With plenty of memory free, and no count or line of the kernel, it is never memory."""
    found = judge(before, after, log, least)
    assert found.cause is cause
    assert ("ran out" in found.sentence("it")) == (cause is not Cause.OTHER)


def test_the_pid_of_a_killed_loader_worker_is_found() -> None:
    words = "RuntimeError: DataLoader worker (pid 28675) is killed by signal: Killed. "
    assert loader_worker(words) == 28675
    assert loader_worker(words.replace("28675", "9" * 5000)) is None
    assert loader_worker(words.replace("Killed", "Bus error")) is None


def test_a_killed_rank_is_not_called_out_of_memory_on_this_machine(tmp_path: Path) -> None:
    """The real counts and samples, with more than a tenth of the memory free."""
    attempt = AttemptLayout(tmp_path)
    attempt.rank(1).root.mkdir(parents=True)
    attempt.rank(1).exit.write_text("137")
    witness = KillWitness()
    witness.begin()
    witness.look()
    failure = rank_failure(attempt.rank(1), 1)
    assert failure is not None
    told = with_kill_cause(failure, attempt, witness).message
    assert told.startswith("ended by SIGKILL: another process killed it; memory had not run out (")


@pytest.mark.processes
def test_a_crash_names_its_python_line(tmp_path: Path) -> None:
    """A real one, as faulthandler of this Python writes it; gloo's abort at the exit stays apart."""
    script = tmp_path / "crash.py"
    lines = ("import faulthandler, os, signal", "def decode():", "    os.kill(os.getpid(), signal.SIGSEGV)")
    script.write_text("\n".join((*lines, "faulthandler.enable()", "decode()\n")))
    told = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    attempt = AttemptLayout(tmp_path)
    attempt.rank(0).root.mkdir(parents=True)
    attempt.rank(0).exit.write_text(str(128 + signal.SIGSEGV))
    attempt.rank(0).stderr.write_text(f"starting\n{told.stderr}")
    failure = rank_failure(attempt.rank(0), 0)
    assert failure is not None
    assert failure.message == "ended by SIGSEGV (crashed in native code) in decode (crash.py:3)"
    assert failure.traceback is not None
    assert [line.strip() for line in failure.traceback.splitlines()][
        -1
    ] == "Fatal Python error: Segmentation fault"
    assert failure.traceback.index("line 5, in <module>") < failure.traceback.index("line 3, in decode")
    assert without_fatal(f"mine\n{told.stderr}") == "mine\n"
    assert fatal_stack("mine\n") is None


def test_the_text_of_sys_exit_is_told(tmp_path: Path) -> None:
    """Not torch's warning after it, nor a progress bar."""
    attempt = AttemptLayout(tmp_path)
    attempt.rank(0).root.mkdir(parents=True)
    attempt.rank(0).exit.write_text("1")
    attempt.rank(0).stderr.write_text(
        "the data folder has no shards\n 3%|  | 3/100 [00:01<00:30, 3.10it/s]\n"
        "[rank0]:[W1124 13:30:42.1 ProcessGroupGloo.cpp:1] destroy_process_group was not called\n\n"
    )
    failure = rank_failure(attempt.rank(0), 0)
    assert failure is not None
    assert failure.message == "exit code 1 after printing: the data folder has no shards"


@pytest.mark.processes
def test_the_kernels_kill_is_seen_in_the_counts_of_a_cgroup(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in a cgroup of 32 MiB takes more; the counts are that cgroup's (version 1, as root)."""
    folder = kill_cause.CGROUPS / "memory" / f"torchdeck-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(32 << 20))
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made: {error}")
    names = ("memory.oom_control", "memory.usage_in_bytes", "memory.limit_in_bytes", "memory.stat")
    monkeypatch.setattr(
        kill_cause, "_cgroup_files", lambda: kill_cause._Cgroup(*(folder / name for name in names))
    )
    try:
        witness = KillWitness()
        witness.begin()
        witness.look()
        assert witness.cause(None).cause is Cause.OTHER
        take = "x = [bytes([1]) * (1 << 20) for _ in range(4096)]"
        code = f"open('{folder}/cgroup.procs', 'w').write('0'); {take}"
        with subprocess.Popen([sys.executable, "-c", code]) as process:
            ended = process.wait(60)
        assert ended == -signal.SIGKILL
        found = witness.cause(process.pid)
        assert found.cause is Cause.MEMORY
        assert "kernel log" in found.evidence or "its cgroup counts 1 such kill" in found.evidence
    finally:
        folder.rmdir()
