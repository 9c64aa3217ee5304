"""Strangers at the store of a run on several nodes, under real torchrun: none is believed, all count."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from support.agents.agent_run import CORE
from support.agents.gang_run import TOKEN, GangRun
from support.agents.gang_scripts import Maker
from support.system.listening_sockets import listening
from support.waiting import wait_until
from torchdeck.agent.store_order import key_of
from torchdeck.contract.processes import processes_of_run

pytest.importorskip("torch", reason="torchrun comes with torch")
OURS = (sys.executable, str(CORE / "torchdeck/distributed/torchrun.py"))
LIMIT = 90.0
RANK = """
import os, time
from pathlib import Path
import torch, torch.distributed as dist
from torchdeck.distributed import setup_distributed
from torchdeck.distributed.group.json_collectives import all_gather
print("up", flush=True)
while not Path("join").exists():
    time.sleep(0.02)
config = setup_distributed(backend="gloo")
print("joined", all_gather({"rank": config.rank}), "TORCHDECK_STORE" in os.environ, flush=True)
while not Path("go").exists():
    time.sleep(0.02)
dist.destroy_process_group()
"""


def _port(run: GangRun) -> int:
    return int(run.wait("attempt_started").fields["port"])


def _up(run: GangRun, text: str) -> None:
    for rank in range(2):
        run.wait_stdout(text, rank, LIMIT)


def _touch(run: GangRun, name: str) -> None:
    (Path(run.plan.nodes[0].working_dir) / name).touch()


@contextlib.contextmanager
def _strangers(port: int) -> Iterator[None]:
    """One speaks as torch's store does, one says nothing, others say odd things; all the time."""
    over = threading.Event()
    kept: list[socket.socket] = []

    def come() -> None:
        said = [bytes([0]) + (0x3C85F7CE).to_bytes(4, "little"), b"", b"\0" * 999, b"GET / HTTP/1.1\r\n\r\n"]
        while not over.wait(0.05):
            with contextlib.suppress(OSError):
                kept.append(socket.create_connection(("127.0.0.1", port), timeout=1))
                kept[-1].sendall(said[len(kept) % len(said)])

    thread = threading.Thread(target=come)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for each in kept:
            each.close()


def test_ranks_of_a_recipe_meet_though_strangers_come(make_gang: Maker) -> None:
    """Before torchrun is up on the second node, and while the ranks join: they find each other alone.

    A client of torch's own store, which before could write and read all keys, gets nothing; the node's
    journal has the strangers; and what listens does so on loopback and on the training address.
    """
    # torch.distributed exposes it under its own name, which its type stubs lack
    from torch._C._distributed_c10d import TCPStore

    run = make_gang(RANK, torchrun=OURS, env={"TORCHDECK_RECIPE": "{}"}).start()
    port = _port(run)
    with _strangers(port):
        _up(run, "up")
        with pytest.raises(RuntimeError):
            TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=2), wait_for_workers=False)
        _touch(run, "join")
        _up(run, "joined [{'rank': 0}, {'rank': 1}] True")
        found = listening(identity.pid for identity in processes_of_run(run.run_id))
        refused = wait_until(lambda: run.events("strangers"), 20, "the strangers to be reported")[0].fields
    assert ("127.0.0.1", port) in found
    assert {address for address, _ in found} == {"127.0.0.1", "127.0.0.2"}
    assert refused["address"] == "127.0.0.1"
    _touch(run, "go")
    assert run.finished(LIMIT)["state"] == "SUCCEEDED"


@pytest.mark.soak
def test_a_script_of_several_nodes_meets_on_the_training_address(make_gang: Maker) -> None:
    """By torch's own store, as MASTER_ADDR and MASTER_PORT say, which listens there and nowhere else."""
    run = make_gang(RANK, torchrun=OURS).start()
    port = _port(run)
    _up(run, "up")
    _touch(run, "join")
    _up(run, "joined [{'rank': 0}, {'rank': 1}] False")
    found = listening(identity.pid for identity in processes_of_run(run.run_id))
    assert ("127.0.0.1", port) in found
    assert {address for address, _ in found} == {"127.0.0.1"}
    _touch(run, "go")
    assert run.finished(LIMIT)["state"] == "SUCCEEDED"


@pytest.mark.soak
def test_no_rank_finds_the_key(make_gang: Maker) -> None:
    """It is in no environment and on no command line of a process of the run, nor on a rank's input."""
    script = """
    import os, sys, time
    from pathlib import Path
    print("read", repr(sys.stdin.read()), "TORCHDECK_STORE_ORDER" in os.environ, flush=True)
    while not Path("go").exists():
        time.sleep(0.02)
    """
    run = make_gang(script, torchrun=OURS, env={"TORCHDECK_RECIPE": "{}"}).start()
    key = key_of(TOKEN, run.run_id, 1).hex().encode()
    _up(run, "read '' False")
    of_processes = [
        Path(f"/proc/{identity.pid}/{name}")
        for identity in processes_of_run(run.run_id)
        for name in ("environ", "cmdline")
    ]
    files = [path for layout in run.layouts.values() for path in layout.root.rglob("*") if path.is_file()]
    assert len(of_processes) >= 8
    assert [path for path in of_processes + files if key in path.read_bytes()] == []
    _touch(run, "go")
    assert run.finished(LIMIT)["state"] == "SUCCEEDED"
