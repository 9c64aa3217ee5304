"""A disk that fills up while a run goes on: a small file system of its own (root only)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agent_run import AgentRun, cleaning, make_plan, script, with_policy
from support.small_disk import mounted
from support.waiting import wait_until
from torchdeck.launch.requests import Request, place_request
from torchdeck.rundir.processes import processes_of_run

FILLING = """
import os, time
from pathlib import Path
from torchdeck.telemetry.progress import ProgressFile
attempt = Path(os.environ["TORCHDECK_RUN_DIR"]) / "attempts" / os.environ["TORCHDECK_ATTEMPT"]
progress = ProgressFile(attempt / "ranks" / os.environ["RANK"] / "progress")
step = 0
with (attempt / "ballast").open("wb", buffering=0) as ballast:
    while not (attempt / "stop").exists():
        step += 1
        if step < 200:
            ballast.write(bytes(1 << 16))
        progress.report("training", step)
        time.sleep(0.02)
(attempt / "saved").write_text("while there was room")
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    folder = tmp_path / "small disk"
    folder.mkdir()
    with mounted(folder, "size=16m"):
        yield folder


def test_a_filling_disk_stops_the_run_while_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    """Below min_free_bytes the ranks are asked to save and stop, and can; the verdict is journaled on
    that disk."""
    policy = with_policy(cooperative_stop=True, min_free_bytes=8 << 20)
    run = AgentRun(small_disk, make_plan(script(tmp_path, FILLING), tmp_path, nproc=1, policy=policy))
    with cleaning([run]):
        finished = run.start().finished()
        assert finished["state"] == "FAILED"
        assert "disk is nearly full" in finished["why"]
        assert (run.layout.attempt(1).root / "saved").read_text() == "while there was room"
        low = run.wait("disk_low").fields
        assert low["free"] < low["needed"] == 8 << 20


FULL = """
import os, time
from pathlib import Path
attempt = Path(os.environ["TORCHDECK_RUN_DIR"]) / "attempts" / os.environ["TORCHDECK_ATTEMPT"]
print("up", flush=True)
try:
    with (attempt / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(4096))
except OSError:
    pass
(Path(os.environ["HERE"]) / "full").touch()
time.sleep(600)
"""


def test_a_run_can_be_stopped_on_a_full_disk(small_disk: Path, tmp_path: Path) -> None:
    """The agent outlives it, takes a request that is a name alone, ends the ranks and leaves."""
    plan = make_plan(script(tmp_path, FULL), tmp_path, nproc=1, env={"HERE": str(tmp_path)})
    run = AgentRun(small_disk, plan)
    with cleaning([run]):
        run.start()
        wait_until((tmp_path / "full").exists, 30, "the disk to be full")
        agent = run.agent()
        place_request(run.node.inbox, Request("1-stop_now-0a", "stop_now", "test"))
        wait_until(lambda: not processes_of_run(run.run_id), 20, "the ranks to end")
        assert run.agent() in (agent, None)  # it ended well, or waits for room to say so
        (run.layout.attempt(1).root / "ballast").unlink()
        assert run.finished()["state"] == "CANCELLED"
        assert len(run.events("agent_started")) == 1
