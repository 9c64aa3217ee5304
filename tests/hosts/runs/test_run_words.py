"""What a person writes arrives on other machines byte for byte; what is secret arrives nowhere else."""

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import tomlkit

from support.cli.typing_at import Typing
from support.hosts.hosts_run import HostsRun, write_inventory
from support.waiting import wait_until
from torchdeck.runs.follower import read_run

AcrossOf = Callable[..., HostsRun]
ODD = "a b\t'c' \"d\" $(touch /tmp/never) `id` ; & | \\ * ~ ünï\nnext line"
SCRIPT = """
import json, os, sys, time
from pathlib import Path
rank = os.environ["RANK"]
found = {"argv": sys.argv[1:], "environ": dict(os.environ), "script": sys.argv[0]}
told = Path(os.environ["TORCHDECK_RUN_DIR"], f"told {rank}.json")
told.with_suffix(".tmp").write_text(json.dumps(found))
told.with_suffix(".tmp").rename(told)
print("told", flush=True)
while not Path(os.environ["GO"]).exists():
    time.sleep(0.05)
"""
SCRIPT_NAME = "the script $HOME.py"
ODD_FOLDER = "of 'a' \"node\" $(exit 9) & ünï"
CANARY = "canary-$(of the run) 'x'"


def test_words_and_secrets(
    across: AcrossOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torchdeck_home: Path
) -> None:
    """A script in a folder of odd name gets odd words and a secret; the secret is in its ranks alone.

    One node has an activation script, the other a conda environment, and its home is of odd name too.
    """
    activate, conda = activation_script(tmp_path), conda_environment(tmp_path)
    home = tmp_path / ODD_FOLDER / "home"
    hosts = across(
        2, {1: {"activate": str(activate)}, 2: {"conda": conda, "python": None, "home": str(home)}}
    )
    monkeypatch.setenv("CANARY", CANARY)
    work = tmp_path / "a 'work' $(x) ünï"
    file = telling(work, tmp_path, args=[ODD, "", "--x=1 2"], secrets=["CANARY"])
    with hosts.command.start("--no-gui", "--trust", file) as front:
        hosts.wait_begun(front)
        told = wait_until_told(hosts)
        seen = [json.loads(wait_until(file.read_text, 10, "its text")) for file in told]
        for host in (1, 2):
            holders = _who_has(hosts.made.pids(host), CANARY, "environ")
            kinds = {kind for kind, pids in hosts.processes(host).items() if holders & set(pids)}
            assert kinds <= {"rank", "rank holder", "torchrun"}, kinds
            assert "rank" in kinds
            assert not _who_has(hosts.made.pids(host), CANARY, "cmdline")
            assert not _who_has(hosts.made.pids(host), "\nimport ", "cmdline")  # titles, not source
            ours = _who_has(hosts.made.pids(host), hosts.run.root.name, "cmdline")
            for title in ("torchdeck/agent/__main__.py", "agent/processes/shim.py", "torchdeck link: "):
                assert ours & _who_has(hosts.made.pids(host), title, "cmdline")
        assert not _who_has([hosts.controller()], CANARY, "environ", "cmdline")
        (tmp_path / "go").touch()
        output, _ = front.communicate(timeout=60)
    assert front.returncode == 0, output
    for rank, found in enumerate(seen):
        assert found["argv"] == [ODD, "", "--x=1 2"]
        assert found["environ"]["ODD"] == ODD
        assert found["environ"]["CANARY"] == CANARY
        assert found["environ"]["RANK"] == str(rank)
        assert Path(found["script"]).name == SCRIPT_NAME
        assert found["environ"]["OF_THE_NODE"] == ODD
    assert str(home) in seen[1]["script"]
    assert seen[1]["environ"]["ACTIVATED"] == f"activate {conda}"
    assert not Path("/tmp/never").exists()
    for file in told:
        file.unlink()  # that the script wrote it down is its own affair
    hosts.wait_empty()
    hosts.wait_controller_gone()  # it writes files that are read below
    assert CANARY not in output
    _assert_nowhere(CANARY, torchdeck_home, work, home, *(hosts.made.home(host) for host in (1, 2)))


@pytest.mark.soak
def test_logins_are_asked_for_and_kept_in_memory(
    across: AcrossOf, tmp_path: Path, torchdeck_home: Path
) -> None:
    """A password and a passphrase, typed at a terminal, are in no file, argument or environment."""
    hosts = across(2)
    password = hosts.made.allow_passwords(1)
    key, passphrase = hosts.made.key_with_passphrase()
    write_inventory(hosts.made, torchdeck_home, {1: {"key": None}, 2: {"key": str(key)}})
    file = telling(tmp_path / "work", tmp_path)
    answers = {"Password of": password, "Passphrase of": passphrase}
    with Typing(hosts.command, answers, "--no-gui", "--trust", file) as front:
        wait_until_told(hosts)
        here = [front.pid, hosts.controller()]
        for secret in answers.values():
            everywhere = [*here, *hosts.made.pids(1), *hosts.made.pids(2)]
            assert not _who_has(everywhere, secret, "environ", "cmdline")
        os.kill(front.pid, signal.SIGKILL)
        os.kill(hosts.controller(), signal.SIGKILL)
    assert sorted(front.answered) == sorted(answers)  # each once, though connected to several times
    with Typing(hosts.command, answers, "runs", "attach", hosts.run.root.name) as again:
        wait_until(lambda: hosts.run_is_followed() or None, 60, "links that are up again")
        (tmp_path / "go").touch()
        assert again.wait(60) == 0, again.seen
    hosts.wait_empty()
    assert sorted(again.answered) == sorted(answers)
    for secret in answers.values():
        assert secret not in front.seen + again.seen
        _assert_nowhere(secret, torchdeck_home, *(hosts.made.home(host) for host in (1, 2)))


@pytest.mark.soak
def test_a_stop_asks_for_the_password_of_a_node(
    across: AcrossOf, tmp_path: Path, torchdeck_home: Path
) -> None:
    """Nobody follows the run any more, and the controller that the stop starts cannot ask."""
    hosts = across(2)
    password = hosts.made.allow_passwords(1)
    write_inventory(hosts.made, torchdeck_home, {1: {"key": None}})
    file = telling(tmp_path / "work", tmp_path)
    with Typing(hosts.command, {"Password of": password}, "--no-gui", "--trust", file) as front:
        wait_until_told(hosts)
        os.kill(front.pid, signal.SIGKILL)
        os.kill(hosts.controller(), signal.SIGKILL)
    hosts.wait_controller_gone()
    words = ("runs", "stop", "--now", hosts.run.root.name)
    with Typing(hosts.command, {"Password of": password}, *words) as stopping:
        assert stopping.wait(60) == 0, stopping.seen
    assert stopping.answered == ["Password of"]
    assert read_run(hosts.run).state == "CANCELLED"
    hosts.wait_empty()


def activation_script(folder: Path) -> Path:
    """A node's script of odd name, which sets a variable to odd words and prints what no one waits for."""
    script = folder / ODD_FOLDER / "activate it"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"echo noise\nexport OF_THE_NODE={shlex.quote(ODD)}\n")
    return script


def conda_environment(folder: Path) -> str:
    """An environment of odd name; a stub with conda's interface activates it, and its Python is ours."""
    environment = folder / ODD_FOLDER / "conda" / "envs" / "the 'torch' $HOME"
    python = environment / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    script = folder / ODD_FOLDER / "conda" / "etc" / "profile.d" / "conda.sh"
    script.parent.mkdir(parents=True)
    path = shlex.quote(str(python.parent))
    does = f'echo noise; PATH={path}:$PATH; export ACTIVATED="$*" OF_THE_NODE={shlex.quote(ODD)}'
    script.write_text(f"conda() {{ {does}; }}\n")
    return str(environment)


def telling(work: Path, folder: Path, args: Sequence[str] = (), secrets: Sequence[str] = ()) -> Path:
    """A run file in `work` whose ranks write down what they got and wait for `go` in `folder`."""
    work.mkdir()
    (work / SCRIPT_NAME).write_text(SCRIPT)
    config = {
        "run": {
            "script": SCRIPT_NAME,
            "args": list(args),
            "env": {"ODD": ODD, "GO": str(folder / "go")},
            "secrets": list(secrets),
        },
        "distributed": {"nodes": ["node1", "node2"], "nproc": 1, "devices": "cpu"},
        "limits": {"min_free_disk": "1MiB"},
    }
    file = work / "run.toml"
    file.write_text(tomlkit.dumps(config))
    return file


def wait_until_told(hosts: HostsRun) -> list[Path]:
    """What the rank of each host has written down."""
    hosts.command.the_run()
    told = [hosts.on(host).root / f"told {host - 1}.json" for host in (1, 2)]
    wait_until(lambda: all(file.exists() for file in told), 90, "both ranks to tell what they got")
    return told


def _who_has(pids: list[int], text: str, *files: str) -> set[int]:
    """Which processes have `text` in one of these files of /proc."""
    found = set()
    for pid in pids:
        for file in files:
            try:
                content = Path(f"/proc/{pid}/{file}").read_bytes()
            except OSError:
                continue
            if text.encode() in content:
                found.add(pid)
    return found


def _assert_nowhere(text: str, *folders: Path) -> None:
    """No file below the folders has it, as it is or as JSON has it."""
    searched = 0
    for file in (file for folder in folders for file in _files(folder)):
        searched += 1
        content = file.read_bytes()
        assert text.encode() not in content, file
        assert json.dumps(text)[1:-1].encode() not in content, file
    assert searched > 20


def _files(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder):
        yield from (Path(root, name) for name in names if Path(root, name).is_file())
