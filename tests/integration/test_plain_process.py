"""One plain process instead of torchrun: a script that starts its own ranks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.controlled_run import nothing_left
from support.cli.command import Command, wait_until_gone
from support.waiting import wait_until
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.runs.follower import read_run

pytestmark = pytest.mark.processes

SPAWNS = """
    import os, signal, sys, time
    import torch.multiprocessing as mp

    def rank(number):
        os.execve(sys.executable, [sys.executable, __file__], {**os.environ, "RANK": str(number)})

    def end(*_):
        print("told to end", flush=True)
        os._exit(7)

    if __name__ == "__main__" and "RANK" in os.environ:
        print("rank", os.environ["RANK"], flush=True)
        signal.pause()
    elif __name__ == "__main__":
        torchruns = ("WORLD_SIZE", "MASTER_PORT", "LOCAL_RANK", "TORCHELASTIC_ERROR_FILE")
        print("mine", [name for name in torchruns if name in os.environ], flush=True)
        signal.signal(signal.SIGTERM, end)
        mp.spawn(rank, nprocs=2)
"""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """`torchdeck` with a home whose runs leave nothing behind."""
    home = tmp_path / "home"
    with nothing_left(home):
        yield Command(home)


def test_ranks_that_a_script_starts_are_found_and_named(command: Command, tmp_path: Path) -> None:
    """Its tree is the run's: a stop tells the script alone, and ends what it leaves."""
    script, file = tmp_path / "spawns.py", tmp_path / "run.toml"
    script.write_text(textwrap.dedent(SPAWNS))
    file.write_text('[run]\nscript = "spawns.py"\nlauncher = "python"\n')
    plan = command.run("plan", file).stdout
    assert "torchrun.py" not in plan
    assert "one process is planned" in plan
    started = command.run("--no-gui", "--detach", file)
    assert started.returncode == 0, started.stdout + started.stderr
    run = command.the_run()
    wait_until(lambda: len(read_run(run).found_ranks) == 2, 60, "the ranks of the script")
    assert [rank for rank, _ in read_run(run).found_ranks] == [0, 1]
    said = run.attempt(1).rank(0).stdout
    wait_until(lambda: said.read_text().count("rank ") == 2, 60, "what they print")
    assert "ranks that the program started: 0 (process " in command.run("runs", "show", "latest").stdout
    command.run("runs", "stop", "latest")
    wait_until_gone(run)
    lines = said.read_text().splitlines()
    assert lines[0] == "mine []"
    assert sorted(lines[1:3]) == ["rank 0", "rank 1"]
    assert lines[3:] == ["told to end"]
    assert read_run(run).state.value == "CANCELLED"


JOINS = """
    import os, signal, sys
    import torch.distributed as dist
    import torch.multiprocessing as mp

    def rank(number, store):
        os.environ["RANK"] = str(number)  # the process has begun without it
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=2)
        signal.pause()

    if __name__ == "__main__":
        mp.spawn(rank, args=(sys.argv[1],), nprocs=2)
"""


def test_ranks_that_know_their_number_only_inside_are_named(command: Command, tmp_path: Path) -> None:
    """By what is added inside (telemetry.inside)."""
    pytest.importorskip("torch", reason="the ranks join a process group")
    script, file = tmp_path / "joins.py", tmp_path / "run.toml"
    script.write_text(textwrap.dedent(JOINS))
    file.write_text(f'[run]\nscript = "joins.py"\nargs = ["{tmp_path}/store"]\nlauncher = "python"\n')
    started = command.run("--no-gui", "--detach", file)
    assert started.returncode == 0, started.stdout + started.stderr
    run = command.the_run()
    wait_until(lambda: len(read_run(run).found_ranks) == 2, 60, "the ranks of the script")
    assert [rank for rank, _ in read_run(run).found_ranks] == [0, 1]
    command.run("runs", "stop", "latest")
    wait_until_gone(run)


STEPS = """
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(5):
        model(torch.randn(2, 4)).square().mean().backward()
        optimizer.step()
"""


def test_the_process_itself_has_callbacks(command: Command, tmp_path: Path) -> None:
    """As rank 0 has them under torchrun."""
    pytest.importorskip("torch", reason="the script trains")
    script, file = tmp_path / "steps.py", tmp_path / "run.toml"
    script.write_text(textwrap.dedent(STEPS))
    file.write_text('[run]\nscript = "steps.py"\nlauncher = "python"\n')
    done = command.run("--no-gui", file)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = command.json("runs", "show", "latest")
    assert (shown["origins"], shown["callback_failures"]) == ({"step": "counted optimizer steps"}, [])
    counted = read_progress(command.the_run().attempt(1).rank(0).counted)
    assert counted is not None
    assert counted.step == 5
