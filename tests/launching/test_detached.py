"""Processes that outlive their parent."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from support.waiting import wait_until
from torchdeck.agent.processes.detached_process import start_detached

pytestmark = pytest.mark.processes


def test_it_has_a_session_a_log_and_default_signals(tmp_path: Path) -> None:
    """A session of its own, no terminal, output in the log, and no signal that the parent ignores."""
    code = (
        "import os, signal, sys\n"
        "print(os.getsid(0) == os.getpid(), repr(sys.stdin.read()), signal.getsignal(signal.SIGHUP).name)\n"
        "print('to stderr', file=sys.stderr)"
    )
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = start_detached([sys.executable, "-c", code], os.environ, tmp_path / "log")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert wait_until(lambda: process.exit_code() is not None, 10, "the process to end")
    assert process.exit_code() == 0
    assert (tmp_path / "log").read_text().split() == ["True", "''", "SIG_DFL", "to", "stderr"]


def test_descriptors_are_not_inherited(tmp_path: Path) -> None:
    """What this process has open is closed there: a lock would otherwise live on."""
    with (tmp_path / "held").open("w"):
        code = "import os; print(sorted(os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))"
        process = start_detached([sys.executable, "-c", code], os.environ, tmp_path / "log")
        wait_until(lambda: process.exit_code() is not None, 10, "the process to end")
    # 0, 1, 2 and the listing itself
    assert (tmp_path / "log").read_text().strip() == "['0', '1', '2'] 4"


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    """The error comes at the start, not from a child that failed."""
    with pytest.raises(FileNotFoundError):
        start_detached(["/nowhere/python"], {}, tmp_path / "log")
