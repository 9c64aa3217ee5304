"""`torchdeck runs stop` of a live run whose journals cannot be read."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.controlled_run import nothing_left
from support.cli.command import Command, wait_until_gone
from support.waiting import wait_until

WAITING = """
    import time
    print("up", flush=True)
    time.sleep(120)
"""
NEWER = b'{"v": 99, "t": 1, "m": 1, "event": "x"}\n'


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """`torchdeck` with a home whose runs leave nothing behind."""
    home = tmp_path / "home"
    with nothing_left(home):
        yield Command(home)


@pytest.mark.parametrize("damage", ["noise", "newer"])
def test_a_run_is_stopped_whatever_its_journals_say(command: Command, tmp_path: Path, damage: str) -> None:
    """Every journal is overwritten while the run trains; its processes end all the same."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(WAITING))
    done = command.run("--no-gui", "--detach", "--script", script, "--nproc", "1")
    assert done.returncode == 0, done.stderr
    run = command.the_run()
    stdout = run.attempt(1).rank(0).stdout
    wait_until(lambda: stdout.exists() and "up" in stdout.read_text(), 60, "the rank to be up")
    journals = (run.journal, run.node("localhost").journal)
    before = [journal.read_bytes() for journal in journals]
    for journal in journals:
        size = journal.stat().st_size
        with journal.open("r+b") as file:
            file.write(b"\xff" * size + b"\n" if damage == "noise" else b" " * (size - 1) + b"\n" + NEWER)
    if damage == "newer":
        wait_until(lambda: "newer Torchdeck" in run.controller_log.read_text(), 20, "the controller to end")
        assert "Traceback" not in run.controller_log.read_text()
    stopped = command.run("runs", "stop", run.root.name, "--now")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    wait_until_gone(run)
    again = command.run("runs", "stop", run.root.name)
    assert again.returncode == 3, again.stdout + again.stderr
    for journal, content in zip(journals, before, strict=True):
        journal.write_bytes(content)  # so that what is left of the run can be looked for
