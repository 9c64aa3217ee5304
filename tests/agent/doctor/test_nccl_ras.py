"""NCCL's RAS service, by recorded answers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.doctor.evidence import waits
from support.waiting import wait_until
from torchdeck.agent.doctor.judge import judge
from torchdeck.agent.doctor.nccl_ras import ADDRESS, RasError, ask, read_state
from torchdeck.agent.doctor.node_gpus import DeviceEvidence, ras_address


def counted(rank: int, host: str, reduced: int) -> dict[str, object]:
    """A rank, and how many collectives it has launched."""
    return {"rank": rank, "host": host, "collective_counts": {"AllReduce": reduced, "Broadcast": 2}}


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
            "missing_ranks": [{"rank": 3, "host": "gpu5", "status": {"unresponsive": True}}],
        }
    ],
}
OLDER = "Job summary\n===========\n  (total)  4\n"


@contextmanager
def service(answer: str, *, knows_json: bool = True) -> Iterator[tuple[tuple[str, int], list[str]]]:
    """A service that plays one conversation; its address, and what it was told."""
    heard: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def play() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rw", newline="\n") as stream:
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
        found = ask(address)
    assert (found.missing, found.mismatched) == ((3,), (1,))
    said = "NCCL gets no answer from rank 3; rank 1 launched fewer collectives than others, by NCCL"
    assert found.sentence == said
    all_wait = {number: waits(number, of=2, nccl=found.sentence) for number in (0, 1)}
    assert judge(all_wait, dict.fromkeys(all_wait, "")).sentence.endswith(f"tests the connections. {said}.")
    assert heard == ["CLIENT PROTOCOL 2", "TIMEOUT 1", "SET FORMAT json", "VERBOSE STATUS"]


def test_the_report_of_an_older_version_is_kept_as_it_is() -> None:
    with service(OLDER, knows_json=False) as (address, _):
        assert ask(address) == (OLDER, (), ())


def test_no_service_is_an_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(RasError, match=str(port)):
        ask(("127.0.0.1", port))


@given(st.text(max_size=60) | st.recursive(st.none() | st.integers() | st.just({}), st.lists).map(json.dumps))
def test_any_answer_is_read(text: str) -> None:
    assert read_state(text).text == text


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
    DeviceEvidence(tmp_path / "none.json", tmp_path / "none.ras", {})
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'index, uuid'\necho '0, GPU-1'\n")
    program.chmod(0o700)
    with service(json.dumps(STATUS)) as (address, _):
        DeviceEvidence(
            tmp_path / "gpus.json", tmp_path / "ras.json", {"NCCL_RAS_ADDR": f"127.0.0.1:{address[1]}"}
        )
        wait_until((tmp_path / "gpus.json").exists, 20, "the table of GPUs")
    assert "GPU-1" in json.loads((tmp_path / "gpus.json").read_text())["table"]
    assert json.loads((tmp_path / "ras.json").read_text()) == STATUS
    assert not (tmp_path / "none.json").exists()
