"""What a run on one node listens on, under real torchrun: nothing that another machine or user reaches."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.controlled_run import controllers, nothing_left
from support.cli.command import Command, identity_in, wait_for_event
from support.system.listening_sockets import listening
from support.waiting import wait_until
from torchdeck.contract.atomic import read_json
from torchdeck.contract.journal import read_journal
from torchdeck.contract.processes import ProcessIdentity, processes_of_run

RECIPE = """
[run]
recipe = "byte-gpt"
[model]
layers = 1
width = 16
heads = 1
context = 16
[training]
steps = 100000
microbatch = 2
[distributed]
nproc = 2
devices = "cpu"
"""
SCRIPT = """
    import os, time
    import torch.distributed as dist
    dist.init_process_group("gloo")
    dist.barrier()
    print("at", os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], flush=True)
    time.sleep(600)
"""
JOIN = """
    import encodings.idna, os, socket, sys
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    try:
        connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1)
        connection.settimeout(20)
        # what a client of torch's store begins with: VALIDATE and its magic number, PING and a number
        connection.sendall(bytes([0]) + (0x3C85F7CE).to_bytes(4, "little") + bytes([13]) + bytes(4))
        print(connection.recv(4))
    except ConnectionResetError:
        print(b"")
    except TimeoutError:
        print("timed out")
"""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """`torchdeck` with a home whose runs leave nothing behind."""
    home = tmp_path / "home"
    with nothing_left(home):
        yield Command(home)


@pytest.mark.soak  # test_two_users.py connects to all of them
@pytest.mark.parametrize("kind", ["recipe", pytest.param("script", marks=pytest.mark.soak)])
def test_every_socket_of_a_run_on_one_node_is_on_loopback(
    command: Command, tmp_path: Path, kind: str
) -> None:
    """Of controller, agent, torchrun and ranks; and another user who knows the port gets no answer."""
    (tmp_path / "run.toml").write_text(RECIPE)
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    words: list[str | Path] = [tmp_path / "run.toml"]
    if kind == "script":
        words = ["--script", tmp_path / "train.py", "--nproc", "2"]
    started = command.run("--no-gui", "--detach", *words)
    assert started.returncode == 0, started.stdout + started.stderr
    run = command.the_run()
    log = run.attempt(1).rank(0).stdout
    mark = {"recipe": "step 2/", "script": "at 127.0.0.1"}[kind]
    wait_until(lambda: log.exists() and mark in log.read_text(), 90, f"{mark!r} of rank 0")
    agent = identity_in(read_journal(run.node("localhost").journal), "agent_started")
    holder = ProcessIdentity.from_json(read_json(run.attempt(1).node("localhost").holder)["holder"])
    assert holder is not None
    beside = [*controllers(run), agent, holder]
    found = listening(identity.pid for identity in [*processes_of_run(run.root.name), *beside])
    assert len(found) >= 4, f"the store, its front and a socket of each rank: {found}"
    assert {address for address, _ in found} == {"127.0.0.1", "127.0.0.2"}
    if os.geteuid() == 0:
        [port] = [port for address, port in found if address == "127.0.0.2"]
        assert _heard_by_another_user("127.0.0.1", port) == "b''"
        assert _heard_by_another_user("127.0.0.2", port) == "timed out"
        refused = wait_for_event(run, "strangers").fields
        assert (refused["count"], refused["why"]) == (1, "it is of another user (65534)")
        assert "connections to the run's store were refused" in command.run("runs", "show", "latest").stdout
    command.run("runs", "stop", "latest", "--now")


def _heard_by_another_user(address: str, port: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(JOIN), address, str(port)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()
