"""Examples of shells: the same variables and arguments, on processes of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.bundle import lay_bundle
from support.agents.controlled_run import nothing_left
from support.cli.command import Command
from support.documents import launched
from support.documents.launched import by_hand, by_script, by_torchrun, saw
from support.system.free_port import free_port
from torchdeck.compat.strategies import LaunchError, launch_distributed
from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.data.batch_plan import build_batch_plan, save_batch_plan

pytestmark = pytest.mark.processes

HERE = "127.0.0.1"


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    """A folder with a plan of 60 samples, and the script that reads it."""
    save_batch_plan(build_batch_plan([7] * 60, token_budget=21), tmp_path / "batch_plan")
    (tmp_path / "train.py").write_text(launched.PLANNED)
    return tmp_path


@pytest.fixture
def with_options(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(launched.WITH_OPTIONS)
    return tmp_path


@pytest.fixture
def with_objects(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(launched.WITH_OBJECTS)
    return tmp_path


@pytest.fixture
def home(torchdeck_home: Path) -> Iterator[Path]:
    """The test's home; whatever its runs started is ended with it."""
    lay_bundle(torchdeck_home)
    with nothing_left(torchdeck_home):
        yield torchdeck_home


def check_planned(folder: Path) -> None:
    found = saw(folder, 4)
    assert [one["place"] for one in found] == [[rank, 4, rank] for rank in range(4)]
    assert sorted(sample for one in found for sample in one["ids"]) == list(range(60))


@pytest.mark.block("batch_plans", 8)
def test_four_ranks_by_variables(planned: Path) -> None:
    """Each has its share of the plan, and all of it is had."""
    by_hand(planned, [{"RANK": rank, "WORLD_SIZE": 4} for rank in range(4)])
    check_planned(planned)


@pytest.mark.block("batch_plans", 9)
def test_four_ranks_by_torchrun(planned: Path) -> None:
    by_torchrun(planned, ["--nproc_per_node=4", "train.py"])
    check_planned(planned)


def check_weights(folder: Path, places: list[list[int]]) -> list[float]:
    found = saw(folder, len(places))
    assert [one["place"] for one in found] == places
    assert len({tuple(one["weights"]) for one in found}) == 1
    weights: list[float] = found[0]["weights"]
    return weights


@pytest.mark.soak
@pytest.mark.block("ddp_fsdp", 5)
def test_torchrun_with_accumulation(with_options: Path) -> None:
    """Two ranks instead of four."""
    options = ["--dataset_name", "wikitext", "--gradient_accumulation_steps", "4", "--batch_size", "8"]
    by_torchrun(with_options, ["--nproc_per_node=2", "--nnodes=1", "train.py", *options])
    check_weights(with_options, [[0, 2, 0], [1, 2, 1]])


@pytest.mark.block("strategies", 7)
@pytest.mark.block("ddp_fsdp", 5)
def test_torchrun_on_two_nodes(with_options: Path) -> None:
    """One rank each, both on this machine, by a script that takes its numbers from variables."""
    port = free_port()
    shared = {"NUM_NODES": 2, "MASTER_ADDR": HERE, "MASTER_PORT": port}
    nodes = [{**shared, "NODE_RANK": rank} for rank in range(2)]
    by_script(with_options, nodes, "--dataset_name", "wikitext", "--batch_size", "8")
    check_weights(with_options, [[0, 2, 0], [1, 2, 0]])
    assert [one["master"] for one in saw(with_options, 2)] == [[HERE, str(port)]] * 2


@pytest.mark.block("ddp_fsdp", 8)
def test_options(with_options: Path) -> None:
    """Alone, and with two ranks, where DDP and FSDP end with the same weights."""
    data = ["--dataset_name", "wikitext"]
    by_hand(with_options, [{}], *data)
    check_weights(with_options, [[0, 1, 0]])
    pair = [{"RANK": rank, "WORLD_SIZE": 2} for rank in range(2)]
    ends = []
    for options in (
        ["--use_ddp", "--batch_size", "8"],
        ["--use_ddp", "--batch_size", "8", "--gradient_accumulation_steps", "4"],
        ["--use_fsdp", "--batch_size", "8"],
    ):
        by_hand(with_options, pair, *data, *options)
        ends.append(check_weights(with_options, [[0, 2, 0], [1, 2, 1]]))
    assert ends[2] == pytest.approx(ends[0], abs=1e-6)
    assert ends[1] != pytest.approx(ends[0], abs=1e-6)


@pytest.mark.soak
@pytest.mark.block("ddp_fsdp", 8)
@pytest.mark.parametrize("options", [["--use_ddp"], ["--use_fsdp", "--batch_size", "4"]], ids=["ddp", "fsdp"])
def test_options_by_torchrun(with_options: Path, options: list[str]) -> None:
    by_torchrun(with_options, ["--nproc_per_node=4", "train.py", "--dataset_name", "wikitext", *options])
    check_weights(with_options, [[rank, 4, rank] for rank in range(4)])


@pytest.mark.block("strategies", 6)
def test_launch_distributed(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script runs on each rank with the configuration as its argument; the run is kept."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(
        "import os, sys\n"
        "variables = ('RANK', 'WORLD_SIZE', 'MASTER_PORT')\n"
        "print(*(os.environ[name] for name in variables), *sys.argv[1:])\n"
    )
    port = free_port()
    folder = launch_distributed(
        script="train.py",
        config="configs/prod.yaml",
        num_nodes=1,
        gpus_per_node=2,
        master_addr="localhost",
        master_port=port,
    )
    assert folder.parent == home / "runs"
    for rank in range(2):
        printed = (folder / "attempts/1/ranks" / str(rank) / "stdout.log").read_text()
        assert printed == f"{rank} 2 {port} configs/prod.yaml\n"


@pytest.mark.block("strategies", 6)
def test_launch_distributed_of_a_script_that_fails(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("raise ValueError('no data')\n")
    with pytest.raises(LaunchError, match=r"run \S+ is FAILED (.|\n)*no data"):
        launch_distributed("train.py", "config.yaml", gpus_per_node=1, master_port=free_port())


def test_nodes_are_named() -> None:
    with pytest.raises(
        ArgumentError, match="num_nodes is 2 and nodes names 0: name every node, the one at node0"
    ):
        launch_distributed("train.py", "config.yaml", num_nodes=2, master_addr="node0")


def check_synced(folder: Path, places: list[list[int]]) -> None:
    """Inputs of rank r are r, so gradients are three times the mean of all ranks, and three for the bias."""
    mean = 3 * sum(range(len(places))) / len(places)
    for one, place in zip(saw(folder, len(places)), places, strict=True):
        assert one == {"place": place, "synced": [[mean] * 8, [3.0] * 2]}


@pytest.mark.block("object_api", 4)
def test_four_processes(with_objects: Path) -> None:
    by_hand(with_objects, [{"RANK": rank, "WORLD_SIZE": 4} for rank in range(4)])
    check_synced(with_objects, [[rank, 4, rank] for rank in range(4)])


@pytest.mark.block("object_api", 15)
def test_four_terminals(with_objects: Path) -> None:
    variables = [
        {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 4, "MASTER_ADDR": HERE} for rank in range(4)
    ]
    by_hand(with_objects, variables)
    check_synced(with_objects, [[rank, 4, rank] for rank in range(4)])


@pytest.mark.block("object_api", 16)
def test_two_machines(with_objects: Path) -> None:
    """Local ranks 0 and 1 on each; both machines are this one."""
    variables = [
        {"RANK": rank, "LOCAL_RANK": rank % 2, "WORLD_SIZE": 4, "MASTER_ADDR": HERE} for rank in range(4)
    ]
    by_hand(with_objects, variables)
    check_synced(with_objects, [[rank, 4, rank % 2] for rank in range(4)])


@pytest.mark.block("object_api", 13, 14)
def test_the_command_as_launcher(home: Path, with_objects: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks instead of four."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(with_objects)
    done = Command(home).run("--no-gui", "--script", with_objects / "train.py", "--nproc", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    check_synced(with_objects, [[rank, 2, rank] for rank in range(2)])
