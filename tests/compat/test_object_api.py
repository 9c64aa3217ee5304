"""Examples of the object API on real ranks: the same calls, and the numbers of the same training by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import SequentialSampler

import torchdeck.compat.object_api as cx
from support.documents import object_api_ranks as ranks
from support.ranks.measured_ranks import Job, measure
from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.environment import LauncherVariableError

pytestmark = pytest.mark.processes

VARIABLES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "DISTRIBUTED_BACKEND",
    "DISTRIBUTED_TIMEOUT_MS",
)
PARALLEL = {"two ranks": (2, 4, 1), "accumulated": (2, 4, 2), "alone": (1, 4, 2)}
"""World size, steps, accumulation."""
MISTAKES = {"no one": 1, "missing": 2, "nccl": 2, "models": 2}
Found = dict[str, list[Any]]
Launched = Callable[..., None]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What each rank of each job found; all of them forked from one process."""
    jobs: dict[str, Job] = {
        "script": {"body": "script"},
        "functions": {"body": "functions"},
        "functions by config": {"body": "functions", "by config": True, "spelled out": True},
        "functions alone": {"body": "functions", "world_size": 1},
        "sampled": {"body": "sampled"},
        "trained": {"body": "trained"},
        **{
            name: {"body": "parallel", "world_size": size, "steps": steps, "accumulation": accumulation}
            for name, (size, steps, accumulation) in PARALLEL.items()
        },
        **{
            name: {"body": "mistakes", "mistake": name, "world_size": size} for name, size in MISTAKES.items()
        },
    }
    done = measure(
        "support.documents.object_api_ranks:body",
        [{"world_size": 2, "folder": str(tmp_path_factory.mktemp("saved")), **job} for job in jobs.values()],
    )
    return dict(zip(jobs, done, strict=True))


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Launched:
    """Sets the launcher's variables of this process, and unsets all others."""

    def launch(**variables: object) -> None:
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))

    launch()
    return launch


@pytest.mark.block("object_api", 1)
@pytest.mark.parametrize("name", PARALLEL)
def test_gradients_are_averaged(found: Found, name: str) -> None:
    """Ranks begin with rank 0's weights, average their gradients, and have the same weights afterwards."""
    size, steps, accumulation = PARALLEL[name]
    expected = ranks.reference(size, steps, accumulation)
    one = found[name]
    for rank in one:
        assert rank["weights"] == pytest.approx(expected, rel=1e-4, abs=1e-5)
        mean = [sum(values) / size for values in zip(*(other["local"] for other in one), strict=True)]
        assert rank["synced"] == pytest.approx(mean, rel=1e-5, abs=1e-7)
    if size > 1:
        assert one[0]["local"] != one[1]["local"]
        assert one[0]["weights"] == one[1]["weights"]


@pytest.mark.block("object_api", 2, 26)
def test_variables(launched: Launched) -> None:
    """Each variable; without it the default: LOCAL_RANK as RANK, this machine, gloo, 30 s."""
    launched(RANK=3, WORLD_SIZE=4)
    config = cx.distributed.DistributedConfig.from_environment()
    cpu, nccl = cx.distributed.BackendType.CPU, cx.distributed.BackendType.NCCL
    assert dataclasses.astuple(config) == (3, 4, 3, "127.0.0.1", 29500, cpu, 30000)
    launched(
        RANK=0,
        WORLD_SIZE=4,
        LOCAL_RANK=0,
        MASTER_ADDR="10.0.0.1",
        MASTER_PORT=29501,
        DISTRIBUTED_BACKEND="nccl",
        DISTRIBUTED_TIMEOUT_MS=1500,
    )
    config = cx.distributed.DistributedConfig.from_environment()
    assert dataclasses.astuple(config) == (0, 4, 0, "10.0.0.1", 29501, nccl, 1500)
    assert config.to_library().timeout == 1.5
    launched(RANK=0)
    with pytest.raises(LauncherVariableError, match="WORLD_SIZE is not set"):
        cx.distributed.DistributedConfig.from_environment()


@pytest.mark.block("object_api", 3, 18)
def test_script(found: Found) -> None:
    """The loss falls, all ranks have the same weights, and the master alone saves them."""
    first, second = found["script"]
    assert len(first["losses"]) == 10
    assert first["losses"][-1] < first["losses"][0] / 2
    assert first["weights"] == second["weights"]
    assert [rank["saved"] for rank in (first, second)] == [True, False]
    assert first["left"]
    assert second["left"]


@pytest.mark.block("object_api", 5)
@pytest.mark.parametrize(
    ("name", "size"), [("functions", 2), ("functions by config", 2), ("functions alone", 1)]
)
def test_joining_and_leaving(found: Found, name: str, size: int) -> None:
    for rank, one in enumerate(found[name]):
        assert one == {"before": False, "state": [True, rank, size, rank, rank == 0], "after": False}


@pytest.mark.block("object_api", 6, 12)
def test_config(launched: Launched) -> None:
    """Fields are assigned, and checked when they are used."""
    config = cx.distributed.DistributedConfig()
    config.rank = 0
    config.world_size = 4
    config.local_rank = 0
    config.master_addr = "127.0.0.1"
    config.master_port = 29500
    config.backend = cx.distributed.BackendType.CPU
    config.timeout_ms = 30000
    used = config.to_library()
    assert (used.rank, used.world_size, used.local_rank, used.backend, used.timeout) == (0, 4, 0, "gloo", 30)
    config.backend = cx.distributed.BackendType.NCCL
    assert config.to_library().backend == "nccl"
    config.rank = 4
    with pytest.raises(LauncherVariableError, match="RANK is 4"):
        config.to_library()
    launched(RANK=1, WORLD_SIZE=2)
    assert cx.distributed.DistributedConfig.from_environment().rank == 1


@pytest.mark.block("object_api", 7)
def test_parallel_model(found: Found) -> None:
    """Gradient of the input, who it is, and the model itself; backward needs a forward."""
    for rank, one in enumerate(found["two ranks"]):
        assert one["grad_input"] == [4, 5]
        assert one["info"] == [rank == 0, rank, 2, True]
        assert one["again"] == "RuntimeError: there is nothing to go backward from: call forward first"
    options = cx.distributed.DDPConfig()
    assert options.to_library() == {
        "broadcast_parameters": True,
        "bucket_size_mb": 25.0,
        "find_unused_parameters": False,
    }


@pytest.mark.block("object_api", 8, 17)
def test_sampler(found: Found) -> None:
    """In each epoch the indices of torch's sampler, in another order."""
    for one in found["sampled"]:
        orders = [ours for ours, _ in one["epochs"]]
        assert orders == [torchs for _, torchs in one["epochs"]]
        assert len({tuple(order) for order in orders}) == 3
        assert one["sizes"] == [51, 101, 102]


@pytest.mark.block("object_api", 21)
def test_drop_last(found: Found) -> None:
    """All ranks have the same number of samples."""
    assert [one["even"] for one in found["sampled"]] == [[50, 101, 100, 50]] * 2


@pytest.mark.block("object_api", 9)
def test_batches(found: Found) -> None:
    """Of our sampler and of torch's: the same; every batch but the last is whole, and an epoch can be
    started again.
    """
    for one in found["sampled"]:
        ours, torchs = one["batches"]
        assert ours == torchs
        taken, count, first_of_next = ours
        assert [len(batch) for batch in taken] == [16, 16, 16, 3]
        assert count == 4
        assert [index for batch in taken for index in batch] == one["epochs"][1][0]
        assert first_of_next == one["epochs"][2][0][:16]


def test_batches_of_other_samplers_are_refused() -> None:
    with pytest.raises(ArgumentError, match="the sampler is a SequentialSampler: give a DistributedSampler"):
        cx.distributed.DistributedBatchIterator(SequentialSampler(range(3)), 2)  # type: ignore[arg-type]


@pytest.mark.block("object_api", 10)
def test_trainer(found: Found) -> None:
    """Validation by split and by data, checkpoints, evaluation; a loaded checkpoint continues."""
    for rank, one in enumerate(found["trained"]):
        assert one["info"] == [rank == 0, rank, 2]
        assert one["saved"] == ["final", "step_00000014"]
        assert one["loaded"] == pytest.approx(one["evaluated"])
        assert len(one["resumed"]["train_losses"]) == 2
        assert one["resumed"]["train_losses"][-1] < one["history"]["train_losses"][-1]
        assert len(one["validated"]["val_losses"]) == len(one["validated"]["train_losses"]) == 2
        options, order, missing = one["refused"]
        assert "training has begun with other options" in options
        assert "shuffle is False" in order
        assert (
            missing
            == "ArgumentError: fit has 2 arguments: call fit(x, y, config) or fit(x, y, x_val, y_val, config)"
        )


@pytest.mark.block("object_api", 11)
def test_history(found: Found) -> None:
    """One number per epoch, the same on every rank; and what all of it took."""
    first, second = (one["history"] for one in found["trained"])
    assert first == second
    for name in ("train_losses", "train_accuracies", "val_losses", "val_accuracies"):
        assert len(first[name]) == 4
    assert first["train_losses"][-1] < first["train_losses"][0]
    assert all(0 <= share <= 1 for share in first["train_accuracies"] + first["val_accuracies"])
    assert first["total_time_seconds"] > 0
    assert first["samples_per_second"] > 0
    assert (first["effective_batch_size"], first["world_size"]) == (16, 2)


@pytest.mark.block("object_api", 19)
def test_learning_rate_by_batch_size(found: Found) -> None:
    """The linear rule, with what the trainer and the parallel model say of themselves."""
    base_lr, base_batch_size = 0.001, 64
    batch_size, world_size = 64, found["two ranks"][0]["info"][2]
    scaled = base_lr * (batch_size * world_size / base_batch_size)
    optimizer = cx.AdamOptimizer(scaled)([torch.nn.Parameter(torch.ones(1))])
    assert optimizer.param_groups[0]["lr"] == 0.002


@pytest.mark.block("object_api", 20)
def test_accumulation(found: Found) -> None:
    """Two steps of half the loss make one update: in a process alone too."""
    for name in ("accumulated", "alone"):
        size, steps, accumulation = PARALLEL[name]
        expected = ranks.reference(size, steps, accumulation)
        assert found[name][0]["weights"] == pytest.approx(expected, rel=1e-4, abs=1e-5)
        assert expected != pytest.approx(ranks.reference(size, steps, 1), abs=1e-3)


@pytest.mark.block("object_api", 22)
def test_no_one_at_the_address(found: Found) -> None:
    (said,) = found["no one"]
    assert said.startswith("RendezvousError: rank 1 reached no one at 127.0.0.1:")
    assert "within 0.4 s: rank 0 was not started, or the port is closed" in said


@pytest.mark.block("object_api", 23)
def test_a_rank_is_missing(found: Found) -> None:
    for said in found["missing"]:
        assert said.startswith("RendezvousError: rank 2 of 3 did not come to 127.0.0.1:")
        assert "within 1.5 s" in said


@pytest.mark.block("object_api", 24)
def test_nccl_without_a_gpu(found: Found) -> None:
    for rank, said in enumerate(found["nccl"]):
        assert f"rank {rank} is local rank {rank} and sees 0 GPUs" in said
        assert "DISTRIBUTED_BACKEND=cpu" in said


@pytest.mark.block("object_api", 25)
def test_ranks_with_different_models(found: Found) -> None:
    for said in found["models"]:
        assert said.startswith("AgreementError: ranks have different weights: 0.bias is ")
        assert "broadcast_parameters" in said
