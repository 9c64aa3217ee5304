"""A shell on a node, and a terminal window: commands by values; one real ssh through two hosts."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import tomlkit

from support.hosts.hosts import TestHosts
from support.values.run_homes import add_run, run_id
from torchdeck.cli.main import main
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.ssh.ssh_command import ssh_argv
from torchdeck.nodes.ssh.target import SshTarget
from torchdeck.use_cases.opening.programs import Programs
from torchdeck.use_cases.opening.shell import node_shell, run_shell, shell_nodes
from torchdeck.use_cases.opening.terminal import NoTerminalError, in_terminal

COMMAND = ("ssh", "-t", "gpu1")


def programs(*installed: str, **environ: str) -> Programs:
    return Programs(environ, lambda name: f"/usr/bin/{name}" if name in installed else None)


@pytest.mark.parametrize(
    ("installed", "terminal", "expected"),
    [
        (("xterm",), "", ("xterm", "-e")),
        (("xterm", "konsole"), "", ("konsole", "-e")),
        (("gnome-terminal", "xterm"), "", ("gnome-terminal", "--")),
        (("kitty",), "kitty", ("kitty",)),
        (("/opt/foot", "xterm"), "/opt/foot", ("/opt/foot",)),
        (("mine", "xterm"), "mine", ("mine", "-e")),
        (("mine",), "mine -T run --", ("mine", "-T", "run", "--")),
    ],
)
def test_the_terminal_of_the_user_or_a_usual_one(
    installed: tuple[str, ...], terminal: str, expected: tuple[str, ...]
) -> None:
    has = programs(*installed, **({"TERMINAL": terminal} if terminal else {}))
    assert in_terminal(COMMAND, has) == (*expected, *COMMAND)


@pytest.mark.parametrize(
    ("has", "why"),
    [
        (programs(), "no terminal program was found"),
        (programs("xterm", TERMINAL="gone"), "TERMINAL names gone"),
        (programs("xterm", TERMINAL="a '"), "TERMINAL is no command"),
    ],
)
def test_without_a_terminal_it_is_refused(has: Programs, why: str) -> None:
    with pytest.raises(NoTerminalError, match=why):
        in_terminal(COMMAND, has)


TARGET = SshTarget("gpu1", "10.0.0.1", 22, "ada", known_hosts=(Path("/a b/known"), Path('/c"d')))


def test_ssh_has_what_the_entry_says_and_leaves_the_rest_to_its_configuration() -> None:
    assert ssh_argv(NodeEntry(address="gpu1"), replace(TARGET, known_hosts=()), "line") == (
        *("ssh", "-t", "--", "gpu1", "line"),
    )
    entry = NodeEntry(address="gpu1", port=2222, user="me", key="/k")
    assert ssh_argv(entry, TARGET, "a 'line'", "/usr/bin/ssh") == (
        *("/usr/bin/ssh", "-t", "-p", "2222", "-l", "me", "-i", "/k"),
        *("-o", 'UserKnownHostsFile="/a b/known"', "--", "gpu1", "a 'line'"),
    )


def test_jump_hosts_are_commands_within_each_other() -> None:
    outer = SshTarget("outer", "10.0.0.2", 22, "root", proxy_command="nc 10%0 22")
    middle = SshTarget("middle", "::1", 2200, "ada", host_key_alias="mid")
    target = replace(TARGET, known_hosts=(), jumps=(outer, middle))
    argv = ssh_argv(NodeEntry(address="gpu1", jump=["x"]), target, "line")
    expected = (
        "ProxyCommand=ssh -p 2200 -l ada -o 'ProxyCommand=ssh -p 22 -l root -o "
        "'\"'\"'ProxyCommand=nc 10%%%%%%%%0 22'\"'\"' -W '\"'\"'[%%h]:%%p'\"'\"' -- 10.0.0.2' "
        "-o HostKeyAlias=mid -W '[%h]:%p' -- ::1"
    )
    assert argv[2:4] == ("-o", expected)


def test_a_node_needs_an_entry_and_ssh(torchdeck_home: Path) -> None:
    torchdeck_home.mkdir(exist_ok=True)
    with pytest.raises(Refusal, match="not in the node inventory"):
        node_shell("gone", torchdeck_home, programs("ssh"))
    nodes = {"version": 1, "nodes": {"gpu1": {"address": "gpu1.lab"}}}
    (torchdeck_home / "nodes.toml").write_text(tomlkit.dumps(nodes))
    with pytest.raises(Refusal, match="no ssh program"):
        node_shell("gpu1", torchdeck_home, programs())
    assert "gpu1.lab" in node_shell("gpu1", torchdeck_home, programs("ssh"))


def with_plan(layout: RunLayout, *nodes: Mapping[str, object]) -> RunLayout:
    layout.plan.write_text(json.dumps({"nodes": nodes}))
    return layout


def test_a_run_gives_folder_and_python(tmp_path: Path) -> None:
    layout = add_run(tmp_path, 1)
    assert shell_nodes(layout) == (LOCALHOST,)
    node = {"name": LOCALHOST, "working_dir": "/work", "command": ["/venv/bin/python", "train.py"]}
    assert run_shell(with_plan(layout, node), None, programs())[-2:] == ("/work", "/venv/bin")
    slots = {"name": LOCALHOST, "working_dir": "@{code}", "command": ["@{environment}/bin/python"]}
    assert run_shell(with_plan(layout, slots), None, programs())[-2:] == ("", "")
    filled = layout.attempt(1).plan
    filled.parent.mkdir(parents=True, exist_ok=True)
    filled.write_text(json.dumps({"nodes": [node]}))
    assert run_shell(layout, LOCALHOST, programs())[-2:] == ("/work", "/venv/bin")
    with pytest.raises(Refusal, match="has no node gpu7"):
        run_shell(layout, "gpu7", programs())


@pytest.mark.processes
def test_the_shell_begins_in_the_folder_with_the_python_of_the_run(
    torchdeck_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").touch()
    node = {"name": LOCALHOST, "working_dir": str(tmp_path), "command": [str(venv / "bin" / "python")]}
    with_plan(add_run(torchdeck_home, 1), node)
    assert main(["runs", "shell", run_id(1), "--json"]) == 0
    argv = json.loads(capsys.readouterr().out)["argv"]
    assert argv[0] == sys.executable
    done = subprocess.run(
        argv,
        input="pwd; echo $PATH; echo $VIRTUAL_ENV\n",
        env={**os.environ, "SHELL": "/bin/sh"},
        capture_output=True,
        text=True,
        check=True,
    )
    folder, path, active = done.stdout.splitlines()
    assert (folder, active) == (str(tmp_path), str(venv))
    assert path.startswith(f"{venv}/bin:")
    assert main(["runs", "shell", run_id(1), "--node", "gpu7"]) == 3
    assert main(["nodes", "shell", "gone"]) == 2


def test_a_node_behind_two_others_is_reached_by_ssh(
    hosts: Callable[..., TestHosts], torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = hosts(3)
    for host, before in ((2, made.address(1)), (3, made.address(2))):
        made.configure(host, f"Match Address *,!{before}", "  DenyUsers *", "Match all")
    nodes = {
        "inner": made.entry(3, jump=["middle"]),
        "middle": made.entry(2, jump=["outer"]),
        "outer": made.entry(1),
    }
    (torchdeck_home / "nodes.toml").write_text(tomlkit.dumps({"version": 1, "nodes": nodes}))
    assert main(["nodes", "shell", "inner", "--json"]) == 0
    argv = json.loads(capsys.readouterr().out)["argv"]
    done = subprocess.run(argv, input="hostname\n", capture_output=True, text=True, check=False, timeout=60)
    assert made.name(3) in done.stdout.split(), done.stderr
