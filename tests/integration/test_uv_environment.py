"""Environments that uv makes for runs, from the files of a project: real uv, real runs, no network."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.controlled_run import nothing_left
from support.cli.command import Command, wait_until_gone
from support.system.uv_projects import torch_wheel, uv_program, uv_project, wheel
from support.waiting import wait_until
from torchdeck.contract.journal import read_journal
from torchdeck.contract.processes import processes_of_run
from torchdeck.runs.follower import read_run

pytestmark = pytest.mark.processes

SCRIPT = """
    import os, shutil, sys
    import tinypkg
    assert shutil.which("python") == os.path.join(sys.prefix, "bin", "python")
    print("rank", os.environ.get("RANK"), "has", tinypkg.VALUE, "in", sys.prefix, flush=True)
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """`torchdeck` with uv, and a home whose runs leave nothing behind."""
    program = Path(uv_program())
    monkeypatch.setenv("PATH", os.pathsep.join([str(program.parent), os.environ["PATH"]]))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    home = tmp_path / "home"
    with nothing_left(home):
        yield Command(home)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Folder of the packages: torch, and a tiny one."""
    folder = tmp_path / "wheels"
    torch_wheel(folder)
    wheel(folder, "tinypkg", "1.0", {"tinypkg.py": "VALUE = 'one'\n"})
    return folder


def test_runs_share_an_environment_made_from_the_lock_file(
    command: Command, tmp_path: Path, wheels: Path
) -> None:
    """It is made once, under a key that the preview names, and only after its folder is trusted."""
    file = uv_project(tmp_path / "project", wheels, SCRIPT, "torch", "tinypkg")
    refused = command.run("--no-gui", file)
    assert refused.returncode != 0
    assert "would run the build code that the project names" in refused.stdout + refused.stderr
    before = command.run("plan", file).stdout
    assert "from uv.lock: uv creates it on localhost at the start" in before, before
    started = command.run("--no-gui", "--trust", file)
    assert started.returncode == 0, started.stdout + started.stderr
    run = command.the_run()
    (environment,) = [path for path in (command.home / "environments").iterdir() if path.is_dir()]
    assert f"({environment.name})" in before
    said = run.attempt(1).rank(0).stdout.read_text()
    assert said == f"rank 0 has one in {environment}\n"
    marked = (environment / "torchdeck.json").stat().st_ino
    after = command.run("plan", file).stdout
    assert f"from uv.lock: already exists on localhost ({environment.name})" in after
    for kind in ("sh", "sbatch"):  # a script without Torchdeck makes no environment
        exported = command.run("plan", file, "--export", kind).stdout
        assert "PYTHON:?is the Python of an environment made from uv.lock (uv sync)" in exported
        assert environment.name not in exported
    assert command.run("--no-gui", file).returncode == 0
    assert (environment / "torchdeck.json").stat().st_ino == marked
    told = [
        event.fields for event in read_journal(run.node("localhost").journal) if event.name == "environment"
    ]
    assert {each["node"] for each in told} == {"localhost"}
    assert told[-1]["text"] == ""


def test_a_run_is_stopped_while_its_environment_is_made(
    command: Command, tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state says what is done; a stop ends uv, and the next run makes the environment anew."""
    file = uv_project(tmp_path / "project", wheels, SCRIPT, "torch", "tinypkg")
    slow, stuck = tmp_path / "slow", tmp_path / "stuck"
    slow.mkdir()
    (slow / "uv").write_text(
        f'#!/bin/sh\ncase "$*" in *--dry-run*|cache*) exec "{uv_program()}" "$@" ;; esac\n'
        f'touch "{stuck}"\nexec sleep 600\n'
    )
    (slow / "uv").chmod(0o755)
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", os.pathsep.join([str(slow), path]))
    started = command.run("--no-gui", "--detach", "--trust", file)
    assert started.returncode == 0, started.stdout + started.stderr
    run = command.the_run()
    wait_until(stuck.exists, 60, "uv")
    progress = r"node localhost: (downloading|installing) 0 of 2 packages"
    wait_until(lambda: re.fullmatch(progress, read_run(run).why), 60, "what is done")
    command.run("runs", "stop", "latest")
    wait_until_gone(run)
    assert read_run(run).state.value == "CANCELLED"
    assert processes_of_run(run.root.name) == []
    monkeypatch.setenv("PATH", path)
    resumed = command.run("--no-gui", file)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "[rank 0] rank 0 has one in" in resumed.stdout
