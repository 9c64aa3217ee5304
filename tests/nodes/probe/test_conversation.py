"""Asking a node's Python, over pipes to a real one."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fakes.nvidia_smi import fake_nvidia_smi
from support.links.piped_process import piped_process
from support.system.old_python import python310
from support.waiting import wait_until
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.processes import RUN_ID_VARIABLE
from torchdeck.nodes.probe.facts import NodeFacts, facts_from, interpreter_facts, node_info
from torchdeck.nodes.probe.probe_session import ARGUMENTS, ProbeError, ProbeSession, PythonEndedError

pytestmark = pytest.mark.processes

LIMIT = 60.0


def facts_of(argv: list[str], env: dict[str, str] | None = None, **fields: object) -> NodeFacts:
    """What the Python of `argv` says of this machine."""
    with piped_process(argv, {**os.environ, **(env or {})}) as process:
        return facts_from("here", ProbeSession(process, "here").ask(ProbeRequest.FACTS, LIMIT, **fields))


def test_a_machine_tells_what_it_has(tmp_path: Path) -> None:
    """One question: system, cores, memory, disks, Python and its torch without importing it, network."""
    facts = facts_of(
        [sys.executable, *ARGUMENTS],
        {"TORCHDECK_HOME": str(tmp_path / "home")},
        peers=["127.0.0.1", "no such name"],
        folders=[str(tmp_path)],
    )
    assert facts.system.boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts.cpu.usable <= facts.cpu.cores
    assert 0 < facts.memory.free <= facts.memory.total
    assert facts.home == str(tmp_path / "home")
    assert [(disk.path, disk.there, disk.writable) for disk in facts.disks] == [
        (str(tmp_path / "home"), False, True),
        (str(tmp_path), True, True),
    ]
    assert facts.python.executable == sys.executable
    assert facts.python.torch is not None
    loopback, unknown = facts.routes
    assert (loopback.interface, loopback.address) == ("lo", "127.0.0.1")
    assert unknown.error
    assert interpreter_facts(facts).torch == facts.python.torch
    assert node_info("a", "10.0.0.1", facts).cpu_count == facts.cpu.usable


def test_the_oldest_python_of_nodes_answers() -> None:
    """What is sent runs on Python 3.10."""
    old = python310()
    if old is None:
        pytest.skip("there is no Python 3.10 here")
    assert facts_of([old, *ARGUMENTS]).python.version.startswith("3.10.")


def test_torch_is_imported_only_when_asked() -> None:
    """`deep` says what torch says; without it nothing of torch runs."""
    with piped_process([sys.executable, *ARGUMENTS]) as process:
        probe_session = ProbeSession(process, "here")
        assert facts_from("here", probe_session.ask(ProbeRequest.FACTS, LIMIT)).python.deep is None
        deep = facts_from("here", probe_session.ask(ProbeRequest.FACTS, LIMIT, deep=True)).python.deep
    assert deep is not None
    assert not deep.error
    assert deep.gloo


def test_gpus_and_who_uses_them_are_told(tmp_path: Path) -> None:
    """From nvidia-smi: driver, CUDA, memory, and processes."""
    body = """case "$*" in
*query-gpu*) echo '0, GPU-a, 81559, 81000, 550.54.15, NVIDIA H100'
  echo '1, GPU-b, 81559, [N/A], 550.54.15, NVIDIA H100';;
*query-compute-apps*) echo 'GPU-b, 77, 512';;
*) echo '| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |';;
esac"""
    folder = Path(fake_nvidia_smi(tmp_path, body)).parent
    gpu = facts_of([sys.executable, *ARGUMENTS], {"PATH": f"{folder}:{os.environ['PATH']}"}).gpu
    assert (gpu.driver, gpu.cuda, gpu.error) == ("550.54.15", "12.4", "")
    assert [(device.uuid, device.free) for device in gpu.devices] == [
        ("GPU-a", 81000 * 2**20),
        ("GPU-b", None),
    ]
    assert [[user.pid for user in device.users] for device in gpu.devices] == [[], [77]]


def test_the_clock_is_compared() -> None:
    """On one machine there is no offset beyond the error, which is less than a moment."""
    with piped_process([sys.executable, *ARGUMENTS]) as process:
        offset = ProbeSession(process, "here").clock()
    assert abs(offset.seconds) <= offset.error + 0.05


def test_samples_follow_each_other() -> None:
    """Rates are over the time in between."""
    with piped_process([sys.executable, *ARGUMENTS]) as process:
        probe_session = ProbeSession(process, "here")
        probe_session.ask(ProbeRequest.SAMPLE, LIMIT)
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            pass
        second = probe_session.ask(ProbeRequest.SAMPLE, LIMIT, runs=True)
    assert second["values"]["cpu_percent"] > 0
    assert isinstance(second["runs"], list)


def orphan(run_id: str, folder: Path) -> subprocess.Popen[bytes]:
    """A process of a run that no one looks after."""
    (folder / "nodes" / "a").mkdir(parents=True)
    env = {RUN_ID_VARIABLE: run_id, "TORCHDECK_RUN_DIR": str(folder), "RANK": "3"}
    return subprocess.Popen(["/bin/sleep", "600"], env=env)


def test_orphans_are_found_and_ended(tmp_path: Path) -> None:
    """By the run id they carry; a run whose agent lives is no orphan, and is left alone."""
    dead, alive = f"dead-{os.getpid()}", f"alive-{os.getpid()}"
    processes = {name: orphan(name, tmp_path / name) for name in (dead, alive)}
    agent = subprocess.Popen(["/bin/sleep", "600"])
    try:
        lock = RunLayout(tmp_path / alive).node("a").lock
        ticks = Path(f"/proc/{agent.pid}/stat").read_text().rpartition(")")[2].split()[19]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        lock.write_text(f'{{"pid": {agent.pid}, "start_ticks": {ticks}, "boot": "{boot}"}}')
        with piped_process([sys.executable, *ARGUMENTS]) as process:
            probe_session = ProbeSession(process, "here")
            runs = {
                run.run_id: run
                for run in facts_from("here", probe_session.ask(ProbeRequest.FACTS, LIMIT)).runs
            }
            assert (runs[dead].supervised, runs[alive].supervised) == (False, True)
            assert runs[dead].ranks == (3,)
            answer = probe_session.ask(ProbeRequest.CLEAN, LIMIT, run_ids=[dead, alive, "never was"])
        assert (answer["ended"], answer["kept"], answer["left"]) == ({dead: 1, "never was": 0}, [alive], 0)
        wait_until(lambda: processes[dead].poll() is not None, 10, "the orphan's end")
        assert processes[alive].poll() is None
    finally:
        for started in (*processes.values(), agent):
            started.kill()
            started.wait()


def test_a_shell_that_prints_is_named(tmp_path: Path) -> None:
    """A login script that prints would be taken for an answer."""
    script = tmp_path / "noisy"
    script.write_text(f'#!/bin/sh\necho "Welcome to node a"\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    with (
        piped_process([str(script), *ARGUMENTS]) as process,
        pytest.raises(ProbeError, match="print something"),
    ):
        ProbeSession(process, "a").ask(ProbeRequest.TIME, LIMIT)


def test_what_does_not_answer_is_not_waited_for() -> None:
    """A limit, and who did not answer what."""
    with (
        piped_process(["/bin/sleep", "600"]) as process,
        pytest.raises(ProbeError, match=r"a did not answer 'time'"),
    ):
        ProbeSession(process, "a").ask(ProbeRequest.TIME, 0.3)


def test_a_python_that_ends_says_why() -> None:
    """The last it printed is quoted."""
    argv = ["/bin/sh", "-c", "echo no python here >&2; read line; exit 3"]
    with piped_process(argv) as process, pytest.raises(PythonEndedError, match="no python here"):
        ProbeSession(process, "a").ask(ProbeRequest.TIME, LIMIT)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"time": "soon"}, "time"),
        ({"memory": {"total": -1, "free": 0, "shm_total": 0, "shm_free": 0}}, r"memory\.total"),
        ({"pythons": []}, "which Python"),
        ({"interfaces": None}, "interfaces"),
    ],
)
def test_impossible_facts_are_refused(change: dict[str, object], where: str) -> None:
    """A node is not believed what cannot be."""
    with piped_process([sys.executable, *ARGUMENTS]) as process:
        answer = ProbeSession(process, "a").ask(ProbeRequest.FACTS, LIMIT)
    with pytest.raises(ProbeError, match=where):
        facts_from("a", {**answer, **change})
