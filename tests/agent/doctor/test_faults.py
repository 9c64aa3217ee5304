"""Real hangs of real ranks on gloo: the rank, the class and the line that are named."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.agents.agent_run import AgentRun, Maker, with_policy
from support.doctor.cases import SAMPLE, Case, of
from support.doctor.faults import WITH_HEARTBEAT
from support.doctor.measured import marked, measured
from support.doctor.programs import REPORTS
from support.waiting import wait_until
from torchdeck.agent.doctor.evidence import Kind
from torchdeck.agent.doctor.stalls import SILENT_LIMIT
from torchdeck.contract.atomic import read_json
from torchdeck.contract.doctor.rank_heartbeat import read_rank_heartbeat
from torchdeck.contract.journal import Event

pytest.importorskip("torch", reason="the ranks train with it")
pytestmark = [pytest.mark.doctor, pytest.mark.processes, pytest.mark.timeout(240)]

HANG_AFTER = 3.0
LIMIT = 90.0


@pytest.mark.parametrize("case", marked(of(*REPORTS)))
def test_a_hang_is_explained(case: Case, make_run: Maker, tmp_path: Path) -> None:
    """The first thing that is said of it is right, and all evidence is there."""
    strict = case in SAMPLE
    with measured(case, tmp_path) as program:
        policy = with_policy(hang_after=HANG_AFTER)
        run = make_run(program.text, nproc=case.ranks, policy=policy, env=WITH_HEARTBEAT).start()
        event = first_hang(run, LIMIT)
        assert event is not None or not strict, run.describe()
        program.hang(event, "script.py", program.text, strict=strict)
    if event is None:
        return
    folder = run.layout.attempt(1).examination(event.fields["examination"])
    assert read_json(folder.verdict)["detail"] == event.fields["detail"]
    for rank in range(case.ranks):
        evidence = read_json(folder.rank(rank))
        assert rank == case.culprit or evidence["frames"], evidence


def first_hang(run: AgentRun, seconds: float) -> Event | None:
    """The first verdict, or None if there is none or the run ends."""

    def said() -> bool:
        return bool(run.events("hang") or run.events("finished"))

    with suppress(AssertionError):
        wait_until(said, seconds, "a verdict")
    return next(iter(run.events("hang")), None)


HEALTHY = """
import os, time
import torch
import torch.distributed as dist

def evaluate(until):
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8)))
    while time.monotonic() < until:
        model(torch.ones(256, 64))

def save(until):
    with open(os.environ["RANK"] + ".bin", "wb") as file:
        while time.monotonic() < until:
            file.seek(0)
            file.write(bytes(1 << 20))
            time.sleep(0.05)

dist.init_process_group("gloo")
rank, x = dist.get_rank(), torch.ones(8)

def steps(count):
    for _ in range(count):
        time.sleep(0.02)
        dist.all_reduce(x)

steps(40)
for long in (evaluate, save):
    if rank == 0:
        long(time.monotonic() + 7)
    steps(40)
print("frozen now", flush=True)
steps(500)
print("done", flush=True)
"""


def stop_all(run: AgentRun, seconds: float) -> None:
    """SIGSTOP to all ranks for so long; the agent goes on."""
    beats = [read_rank_heartbeat(run.layout.attempt(1).rank(rank).heartbeat) for rank in range(2)]
    pids = [beat.pid for beat in beats if beat is not None]
    assert len(pids) == 2
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        until = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() >= until, seconds + 10, "the pause")
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_healthy_run_is_not_ended(make_run: Maker) -> None:
    """With on_hang = "stop": work of one rank for which the other waits, a pause, a freeze of all ranks."""
    policy = with_policy(hang_after=HANG_AFTER, on_hang="stop")
    run = make_run(HEALTHY, policy=policy, env=WITH_HEARTBEAT).start()
    run.wait_stdout("frozen now", seconds=LIMIT)
    for seconds in (3.0, 9.0):
        stop_all(run, seconds)
    assert run.finished(LIMIT)["state"] == "SUCCEEDED", run.describe()
    assert not run.events("hang")


SHORT_TIMEOUT = """
import datetime, time
import torch
import torch.distributed as dist

def absent():
    time.sleep(300)

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
x = torch.ones(8)
for _ in range(40):
    time.sleep(0.02)
    dist.all_reduce(x)
if dist.get_rank() == 1:
    absent()
dist.all_reduce(x)
"""


@pytest.mark.soak
def test_a_hang_is_examined_before_gloos_own_timeout(make_run: Maker) -> None:
    """The timeout of 20 s is shorter than hang_after: the verdict is there when the ranks are ended."""
    run = make_run(SHORT_TIMEOUT, nproc=2, policy=with_policy(hang_after=60.0), env=WITH_HEARTBEAT).start()
    assert run.finished(LIMIT)["state"] == "FAILED", run.describe()
    (told,) = [event.fields for event in run.events("hang")]
    assert told["rank"] == 1, told
    assert "absent" in told["detail"], told
    folder = run.layout.attempt(1).examination(told["examination"])
    assert read_json(folder.verdict)["detail"] == told["detail"]
    assert all(read_json(folder.rank(rank))["frames"] for rank in range(2))


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("py-spy") is not None, reason="py-spy tells the line")
def test_a_program_without_heartbeat_that_sleeps_is_reported(make_run: Maker) -> None:
    """After two minutes without use of processor or disk; the kernel tells where it waits."""
    run = make_run(
        "import time\ntime.sleep(600)\n", nproc=1, policy=with_policy(hang_after=HANG_AFTER)
    ).start()
    told = run.wait("hang", 2 * SILENT_LIMIT).fields
    assert (told["kind"], told["rank"]) == (Kind.ABSENT, 0), told
    assert SILENT_LIMIT <= told["still"] < SILENT_LIMIT + 30.0
    assert "nothing is known of its program" in told["detail"], told
    evidence = read_json(run.layout.attempt(1).examination(told["examination"]).rank(0))
    assert "nanosleep" in evidence["kernel"] or "select" in evidence["kernel"], evidence
