"""Where the store of a trial listens, as it is sent to nodes and started there."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.system.free_port import free_port
from support.system.listening_sockets import listening
from support.waiting import wait_until
from torchdeck.launching.preflight.remote.trial import scripts

pytestmark = pytest.mark.processes


def test_a_trial_listens_on_the_first_nodes_address_alone(tmp_path: Path) -> None:
    """torchrun's own store would listen on every address."""
    for name, text in scripts().items():
        (tmp_path / name).write_text(text)
    argv = [sys.executable, str(tmp_path / "start.py"), "--nnodes", "1", "--nproc-per-node", "1"]
    argv += ["--node-rank", "0", "--rdzv-backend", "static", "--max-restarts", "0", "--no-python"]
    argv += ["--master-addr", "127.0.0.1", "--master-port", str(port := free_port()), "/bin/sleep", "60"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as torchrun:
        try:
            found = wait_until(lambda: listening([torchrun.pid]), 60, "the store to listen")
        finally:
            torchrun.terminate()
    assert found == {("127.0.0.1", port)}
