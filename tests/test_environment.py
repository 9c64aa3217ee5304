"""What the launcher's variables say, and what is said when they cannot be true."""

from pathlib import Path
from typing import Any

import pytest

from torchdeck.environment import (
    DistributedConfig,
    DistributedValues,
    LauncherVariableError,
    Place,
    RunContext,
    rank_layout,
)

TORCHRUN = {
    "RANK": "3",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "2",
}
RUN = {
    "TORCHDECK_RUN_DIR": "/runs/r",
    "TORCHDECK_ATTEMPT": "2",
    "TORCHDECK_RESUME": "/runs/r/checkpoints/step_00000005",
}


def test_rank_of_a_run() -> None:
    """Every variable is read under torchrun's own name."""
    assert Place.from_env(TORCHRUN) == Place(rank=3, world_size=4, local_rank=1, local_world_size=2)
    context = RunContext.from_env(RUN)
    assert (context.run_dir, context.attempt) == (Path("/runs/r"), 2)
    assert context.resume == Path("/runs/r/checkpoints/step_00000005")
    assert context.stop_file == Path("/runs/r/attempts/2/stop")


def test_process_that_no_launcher_started() -> None:
    """It is alone: rank 0 of 1."""
    assert Place.from_env({}) == Place(0, 1, 0, 1)


def test_rank_started_by_hand() -> None:
    """Without local variables all ranks are on one node; with the local world size alone, nodes are even."""
    assert Place.from_env({"RANK": "1", "WORLD_SIZE": "3"}) == Place(1, 3, 1, 3)
    assert Place.from_env({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}) == Place(3, 4, 1, 2)


def test_rank_outside_a_run() -> None:
    """Under plain torchrun there is no run, attempt, nothing to resume; empty texts are as good as none."""
    context = RunContext.from_env(TORCHRUN | {"TORCHDECK_RUN_DIR": "", "TORCHDECK_RESUME": ""})
    assert context == RunContext()
    assert context.stop_file is None
    assert context.rank_layout(0) is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"RANK": "4"}, r"RANK is 4: expected a whole number from 0 to 3 \(WORLD_SIZE - 1\)"),
        ({"RANK": "-1"}, "RANK is '-1': expected a whole number"),
        ({"RANK": "one"}, "RANK is 'one'"),
        ({"RANK": "9" * 100}, "RANK is '9999"),
        (
            {"LOCAL_RANK": "2"},
            r"LOCAL_RANK is 2: expected a whole number from 0 to 1 \(LOCAL_WORLD_SIZE - 1\)",
        ),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE is 0: expected a whole number from 1"),
        ({"LOCAL_WORLD_SIZE": "5"}, r"LOCAL_WORLD_SIZE is 5: .* from 1 to 4 \(WORLD_SIZE\)"),
        ({"RANK": ""}, "RANK is not set: expected a whole number from 0 to 3"),
        (RUN | {"TORCHDECK_ATTEMPT": "0"}, "TORCHDECK_ATTEMPT is 0: expected a whole number from 1"),
        (RUN | {"TORCHDECK_ATTEMPT": ""}, "TORCHDECK_ATTEMPT is not set"),
    ],
)
def test_what_cannot_be_true_names_the_variable_and_the_rule(changed: dict[str, str], said: str) -> None:
    """Each wrong variable is named with its value and what would be right."""
    with pytest.raises(LauncherVariableError, match=said):
        assert (Place.from_env(TORCHRUN | changed), RunContext.from_env(TORCHRUN | changed)) is None


def test_how_the_gang_meets() -> None:
    """Address, port, backend and timeout by their variables; each has a default."""
    assert DistributedConfig.from_env({}) == DistributedConfig(0, 1, 0, 1, "127.0.0.1", 29500, "auto", 600.0)
    variables = {"MASTER_ADDR": "node7", "MASTER_PORT": "4000", "DISTRIBUTED_BACKEND": "nccl"}
    config = DistributedConfig.from_env(TORCHRUN | variables | {"DISTRIBUTED_TIMEOUT_MS": "1500"})
    assert config == DistributedConfig(3, 4, 1, 2, "node7", 4000, "nccl", 1.5)
    assert DistributedConfig.from_env({"DISTRIBUTED_BACKEND": "cpu"}).backend == "gloo"
    assert DistributedConfig(backend="cpu").backend == "gloo"
    assert (config.is_main, config.is_distributed, config.place) == (False, True, Place(3, 4, 1, 2))
    assert DistributedConfig.from_env(config.variables()).place == config.place


def test_explicit_values_win() -> None:
    """Over variables, wrong ones too; what follows from a value follows from the explicit one."""
    config = DistributedConfig.from_env(TORCHRUN | {"RANK": "x"}, rank=2, local_rank=0, master_port=1)
    assert (config.rank, config.local_rank, config.master_port) == (2, 0, 1)
    assert DistributedConfig.from_env({}, rank=1, world_size=2).local_rank == 1
    assert (
        DistributedConfig.from_env({"WORLD_RANK": "5", "WORLD_SIZE": "8"}, local_world_size=4).local_rank == 1
    )
    assert DistributedConfig.from_env({"RANK": "1", "WORLD_RANK": "5", "WORLD_SIZE": "8"}).rank == 1


@pytest.mark.parametrize(
    ("environ", "explicit", "said"),
    [
        (
            {"WORLD_SIZE": "2"},
            {"rank": 2},
            r"RANK is 2: expected a whole number from 0 to 1 \(WORLD_SIZE - 1\)",
        ),
        ({}, {"rank": 1}, "WORLD_SIZE is not set"),
        (TORCHRUN | {"RANK": "0"}, {}, r"LOCAL_RANK is 1: expected a whole number from 0 to 0 \(RANK\)"),
        ({"MASTER_PORT": "70000"}, {}, "MASTER_PORT is 70000: expected a whole number from 1 to 65535"),
        ({"DISTRIBUTED_BACKEND": "mpi"}, {}, "DISTRIBUTED_BACKEND is 'mpi': expected nccl for GPUs, or cpu"),
        ({"DISTRIBUTED_TIMEOUT_MS": "soon"}, {}, "DISTRIBUTED_TIMEOUT_MS is 'soon'"),
        ({}, {"timeout": 0.0}, "the timeout is 0.0 s: expected a number of seconds above 0"),
    ],
)
def test_a_gang_that_cannot_be(environ: dict[str, str], explicit: DistributedValues, said: str) -> None:
    """Contradictions between variables, explicit values and the rules are errors that say the rule."""
    with pytest.raises(LauncherVariableError, match=said):
        DistributedConfig.from_env(environ, **explicit)


@pytest.mark.parametrize("explicit", [{"ranks": 1}, {"rank": "1"}, {"rank": True}], ids=str)
def test_values_of_another_kind(explicit: Any) -> None:
    """A name that does not exist and a text for a number are mistakes of the caller."""
    with pytest.raises(TypeError):
        DistributedConfig.from_env({}, **explicit)


def test_files_of_a_rank() -> None:
    """A rank's folder needs the run, the attempt and the rank, and none of torchrun's other variables."""
    layout = rank_layout(RUN | {"RANK": "3"})
    assert layout is not None
    assert layout.root == Path("/runs/r/attempts/2/ranks/3")
    assert rank_layout(TORCHRUN) is None
    assert rank_layout(RUN) is None
    with pytest.raises(LauncherVariableError, match="RANK is 'x'"):
        rank_layout(RUN | {"RANK": "x"})
