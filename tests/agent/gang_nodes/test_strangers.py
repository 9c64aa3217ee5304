"""Strangers at the leader's port while a run continues: it continues, and its agents are the same."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from support.agents.gang_run import GangRun
from support.agents.gang_scripts import WAITING, Maker, go, up

LINES = (
    b"[" * 1000,
    b'{"v":1,"node":"\\ud800","nonce":"0123456789abcdef"}\n{"proof":"\\ud800"}',
    b"\x00" * 4096,
)


@contextlib.contextmanager
def flooded(run: GangRun) -> Iterator[None]:
    """Connections without end to the leader's port: silent ones, and ones that say odd things."""
    listening = run.wait("listening").fields
    address = (str(listening["address"]), int(listening["port"]))
    over = threading.Event()

    def flood() -> None:
        kept: list[socket.socket] = []
        number = 0
        while not over.wait(0.002):
            with contextlib.suppress(OSError):
                kept.append(socket.create_connection(address, timeout=1))
                number += 1
                if number % 2:
                    kept[-1].sendall(LINES[number // 2 % len(LINES)] + b"\n")
            while len(kept) > 100:
                kept.pop(0).close()
        for each in kept:
            each.close()

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_run_of_three_nodes_begins_and_ends_in_a_flood(make_gang: Maker) -> None:
    """No agent ends, every node gets in, and the leader's log stays short."""
    run = make_gang(WAITING, nprocs=(1, 1, 1))
    run.start_agent("alpha")
    with flooded(run):
        run.start_followers()
        up(run)
        run.wait("running")
        go(run)
        assert run.finished()["state"] == "SUCCEEDED"
    for name in run.names:
        assert len(run.events("agent_started", node=name)) == 1
    log = run.node("alpha").log.read_text()
    assert "Traceback" not in log
    assert log.count("was closed") < 20
