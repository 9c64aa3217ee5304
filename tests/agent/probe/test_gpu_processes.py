"""Processes on GPUs: who they are, and ending exactly the one that was meant."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchdeck.agent.probe.gpu_processes import end_process, gpu_processes, run_of, uses_gpu
from torchdeck.contract.processes import RUN_ID_VARIABLE, ProcessIdentity

pytestmark = pytest.mark.processes

SLEEP = [sys.executable, "-S", "-c", "import signal, sys; print(1, flush=True); signal.pause()"]
_IGNORES = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(1, flush=True)\n"
DEAF = [sys.executable, "-S", "-c", f"{_IGNORES}while 1: signal.pause()"]


class Started:
    """A process that has begun; it is ended with the test."""

    def __init__(self, argv: list[str], **variables: str) -> None:
        environ = {name: value for name, value in os.environ.items() if name != RUN_ID_VARIABLE}
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, env={**environ, **variables})
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"1\n"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def question(self) -> dict[str, object]:
        identity = ProcessIdentity.of(self.pid)
        assert identity is not None
        return {"process": identity.to_json()}


@pytest.fixture
def started(request: pytest.FixtureRequest) -> Iterator[Started]:
    argv, variables = getattr(request, "param", (SLEEP, {}))
    made = Started(argv, **variables)
    yield made
    made.process.kill()
    made.process.communicate()


def test_a_process_is_told_with_user_command_and_identity(started: Started) -> None:
    gone = 2**22 + 1
    listed = [
        {"uuid": "GPU-a", "pid": started.pid, "memory": 5},
        {"uuid": "GPU-a", "pid": gone, "memory": None},
    ]
    found = gpu_processes(lambda: listed)
    assert found is not None
    one, other = found
    assert one["command"] == " ".join(SLEEP)
    assert one["process"] == started.question["process"]
    assert (one["memory"], one["endable"], one["run_id"]) == (5, True, "")
    assert one["user"]
    assert (other["process"], other["user"], other["endable"]) == (None, "", False)


def test_a_driver_in_trouble_is_no_answer() -> None:
    def fails() -> list[dict[str, object]]:
        raise subprocess.TimeoutExpired("nvidia-smi", 5)

    assert gpu_processes(fails) is None
    assert gpu_processes(None) is None


def test_a_process_ends_by_sigterm(started: Started) -> None:
    assert end_process(started.question, uses=lambda _: True) == {"outcome": "ended", "why": ""}
    assert started.process.wait(10) == -signal.SIGTERM


@pytest.mark.parametrize("started", [(DEAF, {})], indirect=True)
def test_a_process_that_ignores_sigterm_is_killed(started: Started) -> None:
    assert end_process(started.question, uses=lambda _: True, grace=0.2)["outcome"] == "killed"
    assert started.process.wait(10) == -signal.SIGKILL


def test_another_process_with_the_same_pid_is_never_hit(started: Started) -> None:
    """As after the pid was reused, or the machine was restarted."""
    identity = ProcessIdentity.of(started.pid)
    assert identity is not None
    for other in (
        identity._replace(start_ticks=identity.start_ticks + 1),
        identity._replace(boot="another"),
        identity._replace(pid=2**22),
    ):
        assert end_process({"process": other.to_json()}, uses=lambda _: True)["outcome"] == "gone"
    assert started.process.poll() is None


def test_a_process_without_a_gpu_is_refused(started: Started) -> None:
    """A container may show a pid that is another process's there; the driver's open files tell."""
    assert not uses_gpu(started.pid)
    refused = end_process(started.question)
    assert refused == {"outcome": "refused", "why": f"process {started.pid} does not use a GPU"}
    assert started.process.poll() is None


CHILD = "import subprocess, sys, os; e = dict(os.environ); e.pop('TORCHDECK_RUN_ID')\n"
CHILD += "again = [sys.executable, '-S', '-c', 'print(1, flush=True); input()']\n"
CHILD += "subprocess.Popen(again, env=e, stdin=subprocess.PIPE).wait()"
"""The child of the process ends when the process does, which holds its input."""


@pytest.mark.parametrize("started", [(SLEEP, {RUN_ID_VARIABLE: "a-run"})], indirect=True)
def test_a_process_of_a_run_is_refused(started: Started) -> None:
    refused = end_process(started.question, uses=lambda _: True)
    assert refused["outcome"] == "refused"
    assert "belongs to run a-run: stop the run instead" in refused["why"]
    assert started.process.poll() is None


@pytest.mark.parametrize(
    "started", [([sys.executable, "-S", "-c", CHILD], {RUN_ID_VARIABLE: "a-run"})], indirect=True
)
def test_a_process_that_hides_its_environment_is_known_by_its_parents(started: Started) -> None:
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    assert [run_of(int(child)) for child in children] == ["a-run"]


@pytest.mark.parametrize(
    "question", [{}, {"process": None}, {"process": {"pid": 1}}, {"process": {"pid": -1}}]
)
def test_a_request_without_an_identity_is_invalid(question: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="names no process"):
        end_process(question)


def test_an_owner_that_may_not_be_signalled_is_named(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    refused = end_process(started.question, uses=lambda _: True)
    assert refused["outcome"] == "refused"
    assert f"process {started.pid} belongs to " in refused["why"]
    assert started.process.poll() is None
