"""torchrun with a closed store, by itself: what a person who starts it by hand sees."""

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest

from support.system.free_port import free_port
from torchdeck.distributed import torchrun
from torchdeck.distributed.store import static_rendezvous
from torchdeck.distributed.store.listening_socket import listening_on

pytestmark = pytest.mark.processes

WORDS = ["--nnodes", "1", "--nproc-per-node", "1", "--node-rank", "0"]
WORDS += ["--rdzv-backend", "static", "--max-restarts", "0"]


def _torchrun(
    port: int, *words: str, code: str = "", given: IO[str] | None = None
) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-c", code] if code else [sys.executable, str(torchrun.__file__)]
    argv += [*WORDS, "--master-addr", "127.0.0.1", "--master-port", str(port), "--no-python", *words]
    return subprocess.run(
        argv, stdin=given or subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_port_that_is_taken_is_named_as_that() -> None:
    """The agent chooses another by these words."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = _torchrun(taken.getsockname()[1], "/bin/true")
    assert done.returncode == 1
    assert "Address already in use" in done.stderr


def test_a_pipe_on_standard_input_is_the_ranks() -> None:
    """As when it is started over ssh: nothing is read from there unless the agent says so."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as given, os.fdopen(writing, "w") as writes:
        writes.write("for the rank\n")
        writes.flush()
        done = _torchrun(free_port(), "/bin/sh", "-c", "read line; echo heard $line", given=given)
    assert done.stdout == "heard for the rank\n", done.stderr


def test_a_kernel_that_cannot_keep_others_out_is_reported() -> None:
    """The store is on loopback all the same, and the ranks start."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(torchrun.__file__).parents[2])!r})\n"
        "from torchdeck.contract.network import peer_owner\n"
        "peer_owner._TABLES = {'/no/such/table': peer_owner.IPv4Address}\n"
        "from torchdeck.distributed import torchrun\n"
        "torchrun.main()\n"
    )
    done = _torchrun(free_port(), "/bin/sh", "-c", "echo rank $RANK", code=code)
    assert done.stdout == "rank 0\n", done.stderr
    assert "is open to other users of this machine: [Errno 95] the kernel's table" in done.stderr


def test_another_node_waits_until_the_first_ones_store_listens() -> None:
    """torch pauses between its tries; a store that never listens is for torch to report."""
    port = free_port()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(static_rendezvous._await_listener, "127.0.0.1", port, 60.0)
        with pytest.raises(TimeoutError):
            waiting.result(0.3)
        with listening_on("127.0.0.1", port) as listener:
            waiting.result(30.0)
            listener.accept()[0].close()
    static_rendezvous._await_listener("127.0.0.1", port, 0.1)
