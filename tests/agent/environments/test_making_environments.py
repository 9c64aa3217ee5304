"""Environments made with the real uv from wheels on this disk: whole, once, within a limit, and removed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from support.system.uv_projects import uv_program, uv_project, wheel
from support.waiting import wait_until
from torchdeck.agent.environments.environment_files import find_source
from torchdeck.agent.environments.made import UNUSED, marker_path, read_made, remove_unused
from torchdeck.agent.environments.make import Environment, EnvironmentNotMadeError, use_environment
from torchdeck.agent.environments.making import Making
from torchdeck.agent.snapshots.folder import free
from torchdeck.contract.layout import Home

pytestmark = pytest.mark.processes
KEY = "uv-0123456789"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of two packages, with uv on PATH and a cache of its own."""
    program = Path(uv_program())
    monkeypatch.setenv("PATH", os.pathsep.join([str(program.parent), os.environ["PATH"]]))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("one", "two"):
        wheel(tmp_path / "wheels", name, "1.0", {f"{name}.py": f"NAME = {name!r}\n"})
    uv_project(tmp_path / "project", tmp_path / "wheels", "", "one", "two")
    return tmp_path / "project"


def make(project: Path, home: Path, making: Making | None = None) -> Environment:
    source = find_source(project)
    return use_environment(Home(home), source, KEY, sys.executable, os.environ, making or Making())


def imports(environment: Environment, *names: str) -> str:
    python = Path(environment.folder, "bin", "python")
    command = f"import {', '.join(names)}; print({names[-1]}.__file__)"
    return subprocess.run(
        [python, "-c", command], capture_output=True, text=True, timeout=60, check=False
    ).stdout


def test_an_incomplete_environment_is_made_anew(project: Path, tmp_path: Path) -> None:
    """What a killed process left is removed, whatever it contains."""
    left = tmp_path / "home" / "environments" / KEY
    (left / "bin").mkdir(parents=True)
    (left / "bin" / "python").write_text("#!/bin/false\n")
    (left / "half").touch()
    made = make(project, tmp_path / "home")
    assert imports(made, "one", "two").startswith(made.folder)
    assert not (left / "half").exists()
    os.close(made.lock)


def test_requirements_are_installed_without_a_lock_file(project: Path, tmp_path: Path) -> None:
    """uv finds package indexes in pyproject.toml."""
    (project / "uv.lock").unlink()
    (project / "requirements.txt").write_text("two\n")
    made = make(project, tmp_path / "home")
    assert made.source == "requirements.txt"
    assert imports(made, "two") != ""
    assert imports(made, "one") == ""
    os.close(made.lock)


def test_a_failure_says_what_uv_said(project: Path, tmp_path: Path) -> None:
    """And the environment is not there."""
    (tmp_path / "wheels" / "two-1.0-py3-none-any.whl").unlink()
    with pytest.raises(EnvironmentNotMadeError, match=r"(?s)from uv.lock \(exit code \d+; `uv sync`\).*two"):
        make(project, tmp_path / "home")
    assert read_made(Home(tmp_path / "home"), KEY) is None


def test_only_the_disk_of_the_environment_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one may take minutes, such as a network share that does not answer."""
    folder = tmp_path / "home" / "environments" / KEY
    program = tmp_path / "uv"
    program.write_text(f"#!/bin/sh\nmkdir -p '{folder}/bin'\ntouch '{folder}/bin/python'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    monkeypatch.setattr(os, "sync", lambda: pytest.fail("all disks of the machine are waited for"))
    (tmp_path / "requirements.txt").touch()
    os.close(make(tmp_path, tmp_path / "home").lock)


def test_without_uv_it_says_how_to_get_it(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else is tried."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(EnvironmentNotMadeError, match="pip install --user uv"):
        make(project, tmp_path / "home")


@pytest.fixture
def slow_uv(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A uv that stops while it installs, and a file that lets it continue."""
    go, bin_folder = tmp_path / "go", tmp_path / "bin"
    bin_folder.mkdir()
    program = bin_folder / "uv"
    waits = f'while [ ! -e "{go}" ]; do sleep 0.05; done'
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *--dry-run*|cache*) ;; *) touch "{tmp_path}/began"; {waits} ;; esac\n'
        f'exec "{uv_program()}" "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(bin_folder), os.environ["PATH"]]))
    return go


def test_a_second_run_waits_for_the_first(project: Path, tmp_path: Path, slow_uv: Path) -> None:
    """Both use the one that the first makes, and tell what they do meanwhile."""
    first, second = Making(), Making()
    found: list[Environment] = []
    threads = [
        threading.Thread(target=lambda making=making: found.append(make(project, tmp_path / "home", making)))
        for making in (first, second)
    ]
    threads[0].start()
    wait_until(lambda: first.text == "downloading 0 of 2 packages", 30, "its progress")
    threads[1].start()
    wait_until(lambda: "waiting for another run" in second.text, 30, "the second one waits")
    slow_uv.touch()
    for thread in threads:
        thread.join(60)
    assert len({made.folder for made in found}) == 1
    assert len(found) == 2
    assert (first.text, second.text) == ("", "")
    for made in found:
        os.close(made.lock)


def test_it_ends_at_the_limit_and_when_cancelled(project: Path, tmp_path: Path, slow_uv: Path) -> None:
    """uv's process is ended, so that the next one can begin."""
    with pytest.raises(EnvironmentNotMadeError, match="took too long"):
        make(project, tmp_path / "home", Making(limit=1.0))
    cancelled = Making()

    def cancel() -> None:
        wait_until((tmp_path / "began").exists, 30, "uv installs")
        cancelled.cancel()

    (tmp_path / "began").unlink()
    threading.Thread(target=cancel).start()
    with pytest.raises(EnvironmentNotMadeError, match="stopped"):
        make(project, tmp_path / "home", cancelled)
    slow_uv.touch()
    made = make(project, tmp_path / "home")
    assert imports(made, "one") != ""
    os.close(made.lock)


def test_unused_environments_are_removed(project: Path, tmp_path: Path) -> None:
    """Not before a month, and not while a process uses one."""
    home = Home(tmp_path / "home")
    made = make(project, home.root)
    late = time.time() + UNUSED + 60
    assert remove_unused(home) == []
    assert remove_unused(home, late) == []
    os.close(made.lock)
    assert remove_unused(home, late) == [KEY]
    assert not Path(made.folder).exists()
    again = make(project, home.root)
    assert imports(again, "one") != ""
    os.close(again.lock)
    long_ago = time.time() - UNUSED - 60
    os.utime(marker_path(home, KEY), (long_ago, long_ago))
    free(home.root, None)  # as the deletion of any run does, here and on nodes
    assert not Path(again.folder).exists()
