"""Devices and ports that something else on a node holds, asked of a Python that answers as a node's."""

import dataclasses
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.system.free_port import free_port
from torchdeck.agent.leases import Leases
from torchdeck.contract.plan.launch_plan import NodePlan
from torchdeck.launching.preflight.remote.nodes import check_leases, check_port_of
from torchdeck.nodes.probe.opening import probe_session_here
from torchdeck.nodes.probe.probe_session import ProbeSession

pytestmark = pytest.mark.processes

NODE = NodePlan(
    name="a",
    address="10.0.0.5",
    node_rank=0,
    nproc=2,
    devices=("GPU-0", "GPU-1"),
    working_dir="/w",
    torchrun=("python", "-m", "torch.distributed.run"),
    rank_holder=(),
    command=("python", "train.py"),
    env={},
    unset=(),
)


@pytest.fixture
def probe_session() -> Iterator[ProbeSession]:
    with probe_session_here("a", sys.executable) as found:
        yield found


@pytest.mark.parametrize(("queue", "status"), [(False, "failed"), (True, "warning")])
def test_a_leased_device_is_said_with_its_run(
    probe_session: ProbeSession, tmp_path: Path, *, queue: bool, status: str
) -> None:
    """As of this machine's own: the run waits in the queue, or is refused."""
    nodes = [NODE, dataclasses.replace(NODE, name="b", devices=())]
    probe_sessions, homes = {"a": probe_session}, {"a": str(tmp_path)}
    assert list(check_leases(nodes, probe_sessions, homes, queue=queue)) == []
    leases = Leases(tmp_path / "leases", ["GPU-1"], "20260101-other", "other")
    assert leases.acquire() == []
    try:
        (check,) = check_leases(nodes, probe_sessions, homes, queue=queue)
    finally:
        leases.release()
    assert (check.name, check.status, check.node) == ("devices", status, "a")
    assert check.what == "GPU-1 is held by run 20260101-other (other)"
    assert "queue" in check.fix
    assert list(check_leases(nodes, probe_sessions, homes, queue=queue)) == []


def test_a_port_in_use_on_a_node_is_refused(probe_session: ProbeSession) -> None:
    """And is free again at once where it can be had."""
    with socket.socket() as other:
        port = free_port()
        other.bind(("", port))
        other.listen(1)
        check = check_port_of("a", probe_session, port)
        assert (check.name, check.status) == ("port", "failed")
        assert f"port {port}" in check.what
        assert "distributed.rendezvous.port" in check.fix
    assert check_port_of("a", probe_session, port).status == "ok"
