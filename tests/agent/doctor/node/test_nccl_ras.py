"""NCCL's RAS service, by recorded answers."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import pytest

from support.doctor.evidence import waits
from support.system.users import User, others_python
from support.waiting import wait_until
from torchdeck.agent.doctor.judge import judge
from torchdeck.agent.doctor.node.gpus import DeviceEvidence, ras_address
from torchdeck.agent.doctor.node.nccl_ras import ADDRESS, RasError, RasState, ask, read_state


def counted(rank: int, host: str, reduced: int) -> dict[str, object]:
    """A rank, and how many collectives it has launched."""
    counts = {"AllReduce": reduced, "Broadcast": 2}
    return {"rank": rank, "host": host, "pid": PID + rank, "collective_counts": counts}


PID = 4000
STATUS = {
    "nccl_version": "2.28.3",
    "communicators_count": 1,
    "communicators": [
        {
            "hash": "0x1",
            "size": 4,
            "ranks": [
                counted(0, "gpu3", 1204),
                counted(1, "gpu4", 1203),
                counted(2, "gpu4", 1204),
            ],
            "missing_ranks": [{"rank": 3, "host": "gpu5", "pid": PID + 3, "status": {"unresponsive": True}}],
        }
    ],
}
NOBODY = 65534
OLDER = "Job summary\n===========\n  (total)  4\n"


@contextmanager
def service(*answers: str, knows_json: bool = True) -> Iterator[tuple[tuple[str, int], list[str]]]:
    """A service that plays one conversation per answer; its address, and what it was told."""
    heard: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def play() -> None:
            for answer in answers:
                connection, _ = server.accept()
                with connection, connection.makefile("rw", newline="\n") as stream:
                    converse(stream, answer)

        def converse(stream: TextIO, answer: str) -> None:
            for line in stream:
                heard.append(line.strip())
                known = knows_json or not line.startswith("SET")
                greeting = "SERVER PROTOCOL 2" if line.startswith("CLIENT") else "OK"
                stream.write(answer if "STATUS" in line else f"{greeting if known else 'ERROR: no'}\n")
                stream.flush()
                if "STATUS" in line:
                    return

        thread = threading.Thread(target=play)
        thread.start()
        yield server.getsockname(), heard
        thread.join(10)


def test_ranks_that_stand_out_are_named() -> None:
    """One does not respond, one has launched fewer collectives."""
    with service(json.dumps(STATUS)) as (address, heard):
        found = ask({PID + 1, PID + 2}, address)
    assert (found.missing, found.mismatched) == ((3,), (1,))
    said = "NCCL gets no answer from rank 3; rank 1 launched fewer collectives than others, by NCCL"
    assert found.sentence == said
    all_wait = {number: waits(number, of=2, nccl=found.sentence) for number in (0, 1)}
    assert judge(all_wait, dict.fromkeys(all_wait, "")).sentence.endswith(f"tests the connections. {said}.")
    assert heard == ["CLIENT PROTOCOL 2", "TIMEOUT 1", "SET FORMAT json", "VERBOSE STATUS"]


def job(pid: int, *, behind: int) -> dict[str, Any]:
    """A job of two processes; rank `behind` is behind."""
    ranks = [{**counted(rank, "gpu3", 9 - (rank == behind)), "pid": pid + rank} for rank in (0, 1)]
    return {"communicators": [{"hash": str(pid), "size": 2, "ranks": ranks}]}


def test_communicators_of_other_jobs_do_not_count() -> None:
    """Jobs of a machine share NCCL's port, and one answer may name several."""
    both = {"communicators": [*job(70, behind=0)["communicators"], *job(80, behind=1)["communicators"]]}
    assert read_state(json.dumps(both), {80, 81}).mismatched == (1,)
    assert read_state(json.dumps(both), {70, 71}).mismatched == (0,)
    assert read_state(json.dumps(both), {90}) == RasState(json.dumps(both), other=True)
    assert not read_state(json.dumps({"communicators": []}), {90}).other


def test_a_rank_that_does_not_respond_shows_whose_communicator_it_is() -> None:
    assert read_state(json.dumps(STATUS), {PID + 3}).missing == (3,)


def test_the_service_is_asked_again_if_another_job_answers() -> None:
    with service(json.dumps(job(70, behind=0)), json.dumps(job(80, behind=1))) as (address, heard):
        assert ask({80}, address).mismatched == (1,)
    assert heard.count("VERBOSE STATUS") == 2


def test_only_another_job_is_no_answer() -> None:
    answers = [json.dumps(job(70, behind=0))] * 4
    with service(*answers) as (address, _), pytest.raises(RasError, match="another job"):
        ask({80}, address)


def test_the_report_of_an_older_version_is_kept_as_it_is() -> None:
    with service(OLDER, knows_json=False) as (address, _):
        assert ask({PID}, address) == RasState(OLDER)


def test_no_service_is_an_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(RasError, match=str(port)):
        ask({PID}, ("127.0.0.1", port))


@pytest.mark.timeout(30)
@pytest.mark.parametrize("before", [b"", b"SERVER PROTOCOL 2\n", b"SERVER PROTOCOL 2\nOK\nOK\n"])
def test_an_answer_that_comes_byte_by_byte_is_given_up_in_time(before: bytes) -> None:
    """Each byte comes long before the limit, in any part of the conversation."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(ConnectionError):
                connection.sendall(before)
                while not over.wait(0.004):
                    connection.sendall(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            began = time.monotonic()
            with pytest.raises(RasError, match="timed out"):
                ask({PID}, server.getsockname(), limit=0.3)
            assert time.monotonic() - began < 3
        finally:
            over.set()
            thread.join(10)


FORGES = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    connection, _ = server.accept()
    connection.sendall(b"SERVER PROTOCOL 2\\nOK\\nOK\\n" + sys.argv[1].encode())
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(1000):
        pass
"""


@pytest.mark.root
@pytest.mark.processes
def test_the_answer_of_another_users_process_is_not_used(tmp_path: Path) -> None:
    """It took NCCL's port first. Whether it keeps its end open or closes it at once."""
    for code, whose in ((FORGES.replace("connection.shut", "# "), "another user's"), (FORGES, "user")):
        argv = [others_python(), "-c", code, json.dumps(STATUS)]
        with User(NOBODY, tmp_path).start(argv, cwd=Path("/")) as process:
            try:
                assert process.stdout is not None
                port = int(process.stdout.readline())
                with pytest.raises(RasError, match=f"RAS service that answers is .*{whose}"):
                    ask({PID + 1}, ("127.0.0.1", port), limit=5)
            finally:
                process.kill()


@pytest.mark.parametrize(
    ("text", "address"),
    [("", ADDRESS), ("localhost:4000", ("localhost", 4000)), ("[::1]:4", ("::1", 4)), ("x", ADDRESS)],
)
def test_the_address_is_that_of_the_ranks(text: str, address: tuple[str, int]) -> None:
    assert ras_address(text) == address


@pytest.mark.processes
def test_a_node_with_gpus_writes_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in for nvidia-smi; without one nothing is asked."""
    monkeypatch.setenv("PATH", str(tmp_path))
    DeviceEvidence(tmp_path / "none.json", tmp_path / "none.ras", [], {})
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'index, uuid'\necho '0, GPU-1'\n")
    program.chmod(0o700)
    own = job(os.getpid(), behind=1)
    with service(json.dumps(own)) as (address, _):
        environ = {"NCCL_RAS_ADDR": f"127.0.0.1:{address[1]}"}
        files = (tmp_path / "gpus.json", tmp_path / "ras.json")
        found = DeviceEvidence(*files, [os.getpid()], environ)
        wait_until((tmp_path / "gpus.json").exists, 20, "the table of GPUs")
    assert "GPU-1" in json.loads((tmp_path / "gpus.json").read_text())["table"]
    assert json.loads((tmp_path / "ras.json").read_text()) == own
    assert found.nccl == "rank 1 launched fewer collectives than others, by NCCL"
    assert not (tmp_path / "none.json").exists()
