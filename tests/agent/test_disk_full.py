"""A disk that fills up while a run continues: a small file system of its own (root only)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.agent_run import AgentRun, cleaning, make_plan, script, with_policy
from support.system.small_disk import mounted
from support.waiting import wait_until
from torchdeck.contract.free_space import inodes_left
from torchdeck.contract.processes import processes_of_run
from torchdeck.launching.requests import Request, page_request
from torchdeck.runs.failures.chapter import recognise
from torchdeck.runs.folders.run_directory import RunDirectoryError, create_run_directory

pytestmark = [pytest.mark.processes, pytest.mark.root]

FILLING = """
import os, time
from pathlib import Path
from torchdeck.contract.metrics.progress import ProgressFile
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
        page_request(run.node.inbox, Request("1-stop_now-0a", "stop_now", "test"))
        wait_until(lambda: not processes_of_run(run.run_id), 20, "the ranks to end")
        assert run.agent() in (agent, None)  # it ended well, or waits for room to say so
        (run.layout.attempt(1).root / "ballast").unlink()
        assert run.finished()["state"] == "CANCELLED"
        assert len(run.events("agent_started")) == 1


MANY_FILES = """
import os, time
from pathlib import Path
from torchdeck.contract.metrics.progress import ProgressFile
attempt = Path(os.environ["TORCHDECK_RUN_DIR"]) / "attempts" / os.environ["TORCHDECK_ATTEMPT"]
progress = ProgressFile(attempt / "ranks" / os.environ["RANK"] / "progress")
(attempt / "many").mkdir()
step = 0
while not (attempt / "stop").exists():
    step += 1
    if step < 200:
        (attempt / "many" / str(step)).touch()
    progress.report("training", step)
    time.sleep(0.02)
(attempt / "saved").write_text("while there was room")
"""


@pytest.fixture
def few_inodes(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for bytes, and for 400 files."""
    folder = tmp_path / "few inodes"
    folder.mkdir()
    with mounted(folder, "size=64m,nr_inodes=400"):
        yield folder


def test_a_disk_that_runs_out_of_inodes_stops_the_run_and_is_called_so(
    few_inodes: Path, tmp_path: Path
) -> None:
    """As one that fills up, while ranks can still save."""
    policy = with_policy(cooperative_stop=True, min_free_bytes=1 << 20)
    run = AgentRun(few_inodes, make_plan(script(tmp_path, MANY_FILES), tmp_path, nproc=1, policy=policy))
    with cleaning([run]):
        finished = run.start().finished()
        assert finished["state"] == "FAILED"
        assert "nearly no inodes left" in finished["why"]
        assert "disk is nearly full" not in finished["why"]
        assert (run.layout.attempt(1).root / "saved").read_text() == "while there was room"
        low = run.wait("disk_low").fields
        assert low["inodes"] is True
        assert low["free"] < low["needed"]


def test_a_rank_that_fails_for_want_of_inodes_says_so(few_inodes: Path, tmp_path: Path) -> None:
    """The kernel's words are those of a full disk; where limits are off nothing stops the run before."""
    text = f"""
    from pathlib import Path
    for number in range(1000):
        (Path({str(few_inodes)!r}) / str(number)).touch()
    """
    run = AgentRun(tmp_path / "home", make_plan(script(tmp_path, text), tmp_path, nproc=1))
    with cleaning([run]):
        finished = run.start().finished()
    assert "No space left on device" in finished["why"]
    assert f"no inodes left on the disk of {few_inodes}" in finished["why"]
    found = recognise([("rank 0", finished["why"].splitlines())])
    assert found is not None
    assert found.advice.title == "The disk has no inodes left"


def test_a_run_directory_that_needs_inodes_says_so(few_inodes: Path) -> None:
    """Before a start, too."""
    assert inodes_left(few_inodes) == 399
    for number in range(399):
        (few_inodes / str(number)).touch()
    assert inodes_left(few_inodes) == 0
    with pytest.raises(RunDirectoryError, match="no inodes left on the disk"):
        create_run_directory(few_inodes / "home/runs", "x", 0.0)
