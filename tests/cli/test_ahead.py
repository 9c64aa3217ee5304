"""Knocking at nodes before the run file is checked: real processes, a real port."""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import tomlkit

from support.command import COMMAND, Command
from support.early_controllers import early_ones
from support.silent_node import launch_arguments, port_of, silent_host
from torchdeck.cli.ahead import knocking_ahead


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """TORCHDECK_HOME."""
    return tmp_path / "home"


def was_knocked_at(server: socket.socket) -> bool:
    """Somebody has connected, gone by now or not."""
    server.settimeout(0.0)
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def test_a_wrong_run_file_is_said_though_its_node_was_knocked_at(home: Path, tmp_path: Path) -> None:
    """No controller stays, no run is begun."""
    with silent_host() as server:
        arguments = launch_arguments(home, tmp_path, port_of(server))
        done = Command(home).run("--no-gui", *arguments, "--set", "launch.queue=7")
        assert was_knocked_at(server)
    assert done.returncode == 2
    assert "launch.queue" in done.stderr
    assert "silent" not in done.stderr
    assert not early_ones(home)
    assert not list(home.glob("runs/*"))


@pytest.mark.parametrize(
    "more", ['distributed.nodes=["localhost"]', "distributed.nodes=['nobody']", "distributed.nodes=7"]
)
def test_nobody_is_knocked_at_whom_the_command_does_not_name(home: Path, tmp_path: Path, more: str) -> None:
    """This machine, a name that leads nowhere, and what is no list of names."""
    with silent_host() as server:
        arguments = launch_arguments(home, tmp_path, port_of(server))
        done = Command(home).run("--no-gui", *arguments, "--set", more, "--set", "launch.queue=7")
        assert not was_knocked_at(server)
    assert done.returncode == 2
    assert not early_ones(home)


def test_a_shell_that_closed_standard_input_gets_the_same_words(home: Path, tmp_path: Path) -> None:
    """There is nobody to ask then, and nothing to read from."""
    with silent_host() as server:
        arguments = launch_arguments(home, tmp_path, port_of(server))
        command = Command(home)
        done = subprocess.run(
            ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "--no-gui"]
            + [str(word) for word in (*arguments, "--set", "launch.queue=7")],
            env=command.environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 2
    assert "launch.queue" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_node_book_no_home_is_made(home: Path, tmp_path: Path) -> None:
    """For a file that is wrong."""
    (tmp_path / "train.py").touch()
    words = ("--script", tmp_path / "train.py", "--set", "distributed.nodes=['a']", "--set", "launch.queue=7")
    assert Command(home).run("--no-gui", *words).returncode == 2
    assert not home.exists()


def test_who_imports_lets_who_talks_have_their_turn(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only until the conversations are over, however that comes about."""
    home.mkdir(mode=0o700)
    entry = {"address": "127.0.0.1", "port": 1}
    (home / "nodes.toml").write_text(tomlkit.dumps({"version": 1, "nodes": {"a": entry}}))
    monkeypatch.setenv("TORCHDECK_HOME", str(home))
    args = argparse.Namespace(run_file=None, overrides=["distributed.nodes=['a']"])
    before = sys.getswitchinterval()
    with knocking_ahead(args) as ahead:
        assert ahead is not None
        assert sys.getswitchinterval() < before
        with ahead.talks():
            pass
        assert sys.getswitchinterval() == before
    with pytest.raises(KeyboardInterrupt), knocking_ahead(args) as ahead:
        raise KeyboardInterrupt
    assert sys.getswitchinterval() == before
    assert not early_ones(home)
