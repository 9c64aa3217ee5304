"""GPUs of a node through a probe session with a real Python, beside a stand-in nvidia-smi."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.nvidia_smi import fake_nvidia_smi, machine_with_gpus
from support.links.piped_process import piped_process
from support.values.gpus import RUN, free_gpu, gpu_now
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.nodes.gpus.gpu_now import RunHold
from torchdeck.nodes.probe.facts import ProcessEnd, facts_from
from torchdeck.nodes.probe.monitoring import NodeNow, NodeState, sample_from
from torchdeck.nodes.probe.probe_session import ARGUMENTS, ProbeSession
from torchdeck.use_cases.nodes.gpus import gpus_of_node, without_twins

LIMIT = 60.0


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.processes
def test_a_node_tells_values_and_processes_and_refuses_to_end_one_without_a_gpu(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    """All that the page of a GPU shows comes in the sample that a monitored node sends today."""
    folder = Path(fake_nvidia_smi(tmp_path, machine_with_gpus(f"GPU-0, {sleeper.pid}, 50000"))).parent
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TORCHDECK_HOME": str(tmp_path / "home")}
    with piped_process([sys.executable, *ARGUMENTS], env) as process:
        session = ProbeSession(process, "here")
        facts = facts_from("here", session.ask(ProbeRequest.FACTS, LIMIT))
        sample = sample_from("here", session.ask(ProbeRequest.SAMPLE, LIMIT, devices=["GPU-0"], runs=True))
        between = sample_from("here", session.ask(ProbeRequest.SAMPLE, LIMIT, devices=["GPU-0"]))
        now = NodeNow("here", NodeState.UP, 0.0, None, 7.0, facts, sample, (), sample.gpu_processes)
        busy, free = gpus_of_node(now, {})
        assert between.gpu_processes is None
        assert (busy.use, busy.power, busy.memory_clock, busy.reasons, busy.time) == (93, 640.1, 2619, 4, 7.0)
        assert busy.processes is not None
        (found,) = busy.processes
        assert found.process == ProcessIdentity.of(sleeper.pid)
        assert (found.command, found.endable) == (f"{sys.executable} -S -c input()", True)
        assert [holder.pid for holder in busy.holders] == [sleeper.pid]
        assert (free.holders, free.processes) == ((), ())
        assert found.process is not None
        asked = {"process": found.process.to_json()}
        end = ProcessEnd.model_validate(session.ask(ProbeRequest.END_PROCESS, LIMIT, **asked))
    assert (end.outcome, end.why) == ("refused", f"process {sleeper.pid} does not use a GPU")
    assert sleeper.poll() is None


def test_a_machine_with_two_names_has_its_gpus_once() -> None:
    """As one node of the inventory that is this machine, too."""
    one = gpu_now(node="node-a", runs={RUN: RunHold("fast")})
    twins = without_twins([one, gpu_now(node="localhost"), free_gpu(node="localhost", index=1)])
    assert [gpu.key for gpu in twins] == [("node-a", "GPU-0"), ("localhost", "GPU-1")]
