"""A queue with a real server that is killed: two slots, three runs, and nothing starts twice or is lost."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.agents.bundle import lay_bundle
from support.agents.controlled_run import nothing_left
from support.cli.command import Command
from support.waiting import wait_until

pytestmark = pytest.mark.processes

JOB = """
import sys, time
from pathlib import Path
Path(sys.argv[1]).open("a").write("begun\\n")
limit = time.monotonic() + 120
while not Path(sys.argv[2]).exists() and time.monotonic() < limit:
    time.sleep(0.05)
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """`torchdeck` in a folder with the program, and a home whose runs leave nothing behind."""
    (tmp_path / "job.py").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    command = Command(tmp_path / "home")
    command.home.mkdir(mode=0o700)
    lay_bundle(command.home)
    with nothing_left(command.home):
        yield command


def entries(command: Command) -> dict[str, dict[str, Any]]:
    return {entry["id"]: entry for entry in command.json("queue", "list")["entries"]}


def stages(command: Command) -> list[str]:
    return [each["stage"] for _, each in sorted(entries(command).items())]


def test_a_killed_server_loses_nothing_and_starts_nothing_twice(command: Command, tmp_path: Path) -> None:
    assert command.run("queue", "limit", "--slots", "2").returncode == 0
    for name in ("a", "b", "c"):
        words = ("--script", "job.py", "--nproc", "1", "--set", "distributed.devices=cpu", "--unchecked")
        added = command.run(
            "queue", "add", *words, "--set", f"name={name}", "--", f"{name}.begun", f"{name}.end"
        )
        assert added.returncode == 0, added.stderr

    def begun(name: str) -> bool:
        return (tmp_path / f"{name}.begun").exists()

    with ExitStack() as stack:
        first = stack.enter_context(command.start("queue", "serve"))
        # in the middle of what it does: one run is there, the next start is under way
        wait_until(command.runs, 60, "the first run")
        kill(first)
        second = stack.enter_context(command.start("queue", "serve"))
        wait_until(lambda: begun("a") and begun("b"), 60, "two runs")
        wait_until(lambda: stages(command) == ["running", "running", "waiting"], 60, "two entries to run")
        why = "it needs a CPU slot; q1, q2 use those of localhost"
        wait_until(lambda: entries(command)["q3"]["why"] == why, 30, "the reason of the third entry")
        kill(second)
        (tmp_path / "a.end").touch()  # while no server runs
        third = stack.enter_context(command.start("queue", "serve"))
        wait_until(lambda: begun("c"), 60, "the third run")
        assert stages(command) == ["ended", "running", "running"]
        for name in ("b", "c"):
            (tmp_path / f"{name}.end").touch()
        wait_until(lambda: stages(command) == ["ended"] * 3, 60, "all entries to end")
        third.send_signal(signal.SIGTERM)
        output, _ = third.communicate(timeout=60)
    assert third.returncode == 0, output
    assert output.endswith("stopped; runs that were started continue\n")
    found = entries(command)
    assert {entry["outcome"] for entry in found.values()} == {"SUCCEEDED"}
    assert sorted(entry["run"] for entry in found.values()) == [run.root.name for run in command.runs()]
    assert [(tmp_path / f"{name}.begun").read_text() for name in ("a", "b", "c")] == ["begun\n"] * 3
    assert found["q3"]["begun"] >= found["q1"]["ended"]


def kill(server: subprocess.Popen[str]) -> None:
    server.kill()
    server.wait(30)
