"""The example scripts, written by `torchdeck init` and started as their first lines say."""

import os
import re
from pathlib import Path

import pytest

from support.agents.controlled_run import nothing_left
from support.cli.command import Command
from support.ranks.torch_process import TorchProcess, run_torch
from support.system.free_port import free_port
from torchdeck.config.starting_files import example_names

LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
LIMIT = 90.0


def python(folder: Path, *argv: str, **variables: str) -> str:
    """What a script printed that a person started in `folder`."""
    done = run_torch(argv, env=shell(**variables), cwd=folder, limit=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shell(**variables: str) -> dict[str, str]:
    """A person's environment."""
    kept = {name: value for name, value in os.environ.items() if name not in LAUNCHER}
    return {**kept, "OMP_NUM_THREADS": "1", **variables}


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path / "home")


def written(command: Command, folder: Path, name: str) -> str:
    """The example's file in `folder`."""
    done = command.run("init", "--example", name, folder)
    assert done.returncode == 0, done.stderr
    return f"{name}.py"


def test_all_are_listed_and_tried(command: Command) -> None:
    """The list has every example, and this file a test of each."""
    listed = {row["name"] for row in command.json("init", "--list") if row["kind"] == "example"}
    tests = Path(__file__).read_text()
    assert listed == set(example_names())
    assert all(f'"{name}"' in tests for name in listed)


@pytest.mark.soak
def test_ranges_and_seeds(command: Command, tmp_path: Path) -> None:
    """By hand, two shells: every sample belongs to one of them; in a run of Torchdeck the log is kept."""
    script = written(command, tmp_path, "ranges_and_seeds")
    said = [python(tmp_path, script, RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    assert "samples 0 to 500001, 500002 of them" in said[0]
    assert "samples 500002 to 1000002, 500001 of them" in said[1]
    with nothing_left(command.home):
        done = command.run("--no-gui", "--script", tmp_path / script, "--nproc", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = command.run("runs", "metrics", "latest", "--format", "csv").stdout
    assert rows.count("samples") >= 1


def test_samplers(command: Command, tmp_path: Path) -> None:
    """Under torchrun: of both ranks together every sample exactly once."""
    script = written(command, tmp_path, "samplers")
    said = python(tmp_path, *TORCHRUN, script)
    used = [int(number) for line in re.findall(r"exactly once \[(.*)\]", said) for number in line.split(",")]
    assert sorted(used) == list(range(22))


def in_shells(folder: Path, count: int, *argv: str) -> list[str]:
    """What each of `count` ranks that are started by hand says."""
    variables = {"WORLD_SIZE": str(count), "MASTER_PORT": str(free_port())}
    shells = [TorchProcess(argv, cwd=folder, env=shell(**variables, RANK=str(rank))) for rank in range(count)]
    said = [each.communicate(LIMIT) for each in shells]
    assert [each.returncode for each in shells] == [0] * count, said
    return [out for out, _ in said]


@pytest.mark.parametrize("torchrun", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_hand_written_loop(command: Command, tmp_path: Path, torchrun: bool) -> None:
    """One process, two by hand, two under another strategy, by hand or torchrun: each continues from the
    last.

    Under torchrun the same functions are tried in tests/distributed/group/test_processes.py.
    """
    script = written(command, tmp_path, "hand_written_loop")
    alone = TorchProcess([script, "single"], cwd=tmp_path, env=shell())
    first = alone.communicate(LIMIT)[0]
    assert "step 40 loss" in first
    said = in_shells(tmp_path, 2, script, "ddp")
    assert "step 50 loss" in said[0]
    assert said[1] == ""
    if torchrun:
        last = python(tmp_path, *TORCHRUN, script, "fsdp")
    else:
        last, _ = in_shells(tmp_path, 2, script, "fsdp")
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", first + said[0] + last)]
    assert len(losses) == 12
    assert sum(losses[-4:]) < sum(losses[:4]) * 0.7


@pytest.mark.soak  # test_script_with_trainer.py trains by it too
def test_distributed_trainer(command: Command, tmp_path: Path) -> None:
    """Two ranks by torchrun: it learns the rings, and tells what it was."""
    script = written(command, tmp_path, "distributed_trainer")
    said = python(tmp_path, *TORCHRUN, script)
    assert "2 ranks, 64 samples a step" in said
    assert max(float(share) for share in re.findall(r"held out (\S+)", said)) > 0.9
    assert list((tmp_path / "ring-checkpoints").glob("*/manifest.json"))
