"""Examples about batch plans: the same calls on a real plan, by the library and by torchdeck.compat."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from torchdeck import data
from torchdeck.cli.main import main
from torchdeck.data.batch_plan import BatchPlan, Microbatch, build_batch_plan, save_batch_plan
from torchdeck.data.order import PositionError

LENGTHS = [index * 31 % 50 + 1 for index in range(120)]
VARIABLES = ("RANK", "WORLD_RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")

Launched = Callable[..., None]


@pytest.fixture(params=["torchdeck.distributed", "torchdeck.compat.batch_plans"])
def names(request: pytest.FixtureRequest) -> ModuleType:
    """The library itself, and the module of the document's names."""
    return import_module(request.param)


@pytest.fixture
def plan() -> BatchPlan:
    return build_batch_plan(LENGTHS, token_budget=100, epochs=2, buckets=4)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: BatchPlan) -> Path:
    """The working directory, with a plan in `batch_plan`."""
    monkeypatch.chdir(tmp_path)
    save_batch_plan(plan, "batch_plan")
    return tmp_path


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


def ids(microbatches: list[Microbatch]) -> list[list[int]]:
    return [microbatch.sample_ids.tolist() for microbatch in microbatches]


@pytest.mark.block("batch_plans", 1)
def test_each_rank_walks_its_shard(names: ModuleType, folder: Path, launched: Launched) -> None:
    """Rank i of W has microbatches i, i + W, … of each epoch; all ranks together have each once."""
    trained: dict[int, list[tuple[int, list[int]]]] = {}
    for rank in range(3):
        launched(RANK=rank, WORLD_SIZE=3)
        config = names.DistributedConfig.from_env()
        plan = data.load_batch_plan("./batch_plan/")
        mine = names.shard_batch_plan(plan, config)
        assert names.is_main_process() == (rank == 0)
        assert (config.world_size, mine.total_microbatches) == (
            3,
            len(range(rank, plan.microbatches(0), 3)) * 2,
        )
        trained[rank] = [
            (epoch, mb.sample_ids.tolist()) for epoch, _, mb in mine.iter_from(epoch=0, microbatch_idx=0)
        ]
        assert trained[rank] == [
            (epoch, mb.sample_ids.tolist()) for epoch, index, mb in plan.iter_from(0, 0) if index % 3 == rank
        ]
    for epoch in (0, 1):
        seen = [
            sample
            for rank in trained.values()
            for number, batch in rank
            if number == epoch
            for sample in batch
        ]
        assert sorted(seen) == list(range(len(LENGTHS)))


@pytest.mark.block("batch_plans", 2)
def test_config(names: ModuleType, launched: Launched) -> None:
    config = names.DistributedConfig()
    assert (config.rank, config.world_size, config.is_main, config.is_distributed) == (0, 1, True, False)
    config = names.DistributedConfig(rank=2, world_size=8)
    assert (config.rank, config.world_size, config.is_main, config.is_distributed) == (2, 8, False, True)
    launched(RANK=5, WORLD_SIZE=8, LOCAL_RANK=1, LOCAL_WORLD_SIZE=4)
    config = names.DistributedConfig.from_env()
    assert (config.rank, config.world_size, config.local_rank, config.local_world_size) == (5, 8, 1, 4)


@pytest.mark.block("batch_plans", 11)
@pytest.mark.parametrize("name", ["RANK", "WORLD_RANK"])
def test_variables(names: ModuleType, launched: Launched, name: str) -> None:
    """Both names of the rank; what is not set follows from the rest."""
    launched(**{name: 3}, WORLD_SIZE=4)
    config = names.DistributedConfig.from_env()
    assert (config.rank, config.world_size, config.local_rank, config.local_world_size) == (3, 4, 3, 4)


@pytest.mark.block("batch_plans", 3)
@pytest.mark.parametrize("rank", [0, 1])
def test_convenience_functions(names: ModuleType, launched: Launched, rank: int) -> None:
    assert (names.get_rank(), names.get_world_size(), names.is_main_process()) == (0, 1, True)
    launched(RANK=rank, WORLD_SIZE=2)
    assert (names.get_rank(), names.get_world_size(), names.is_main_process()) == (rank, 2, rank == 0)


@pytest.mark.block("batch_plans", 4)
def test_sharding(names: ModuleType, plan: BatchPlan) -> None:
    """By function and by method; interleaved by bucket; tokens and microbatches of each rank."""
    config = names.DistributedConfig(rank=0, world_size=4)
    mine, same = names.shard_batch_plan(plan, config), plan.shard(rank=0, world_size=4)
    assert ids(list(mine.iter_epoch(0))) == ids(list(same.iter_epoch(0)))
    assert mine.fingerprint == same.fingerprint

    microbatches = sorted(plan.iter_epoch(0), key=lambda microbatch: microbatch.bucket_id)
    balanced = names.interleave_microbatches(microbatches)
    buckets = sorted({microbatch.bucket_id for microbatch in microbatches})
    assert [microbatch.bucket_id for microbatch in balanced[: len(buckets)]] == buckets
    assert sorted(ids(balanced)) == sorted(ids(microbatches))

    stats = names.compute_shard_stats(plan, world_size=4)
    expected = {
        rank: (len(shard), sum(microbatch.tokens for microbatch in shard))
        for rank in range(4)
        for shard in [[mb for _, _, mb in plan.shard(rank, 4).iter_from(0)]]
    }
    assert {rank: (s["num_batches"], s["total_tokens"]) for rank, s in stats.items()} == expected
    sharding = import_module(f"{names.__name__}.sharding")
    assert dict(sharding.compute_shard_stats(plan, world_size=4)[1]) == dict(stats[1])


@pytest.mark.block("batch_plans", 5)
def test_positions(names: ModuleType, folder: Path, plan: BatchPlan) -> None:
    """A position comes back from its file, and the rest of the plan begins there."""
    checkpoint = import_module(f"{names.__name__}.checkpoint")
    pos = names.CheckpointPosition(epoch=1, microbatch_idx=5, global_step=25)
    names.save_checkpoint_position(pos, "checkpoint_pos.json")
    pos = names.load_checkpoint_position("checkpoint_pos.json")
    assert (pos.epoch, pos.microbatch_idx, pos.global_step) == (1, 5, 25)
    rest = [(epoch, index) for epoch, index, _ in plan.iter_from(pos.epoch, pos.microbatch_idx)]
    assert rest == [(1, index) for index in range(5, plan.microbatches(1))]
    for iterate in (checkpoint.iter_from_checkpoint, names.iter_from_checkpoint):
        assert [(epoch, index) for epoch, index, _ in iterate(plan, pos)] == rest
        whole = [(epoch, index) for epoch, index, _ in iterate(plan, None)]
        assert whole == [(epoch, index) for epoch, index, _ in plan.iter_from(0)]


def test_position_files_of_other_programs(names: ModuleType, tmp_path: Path) -> None:
    """Without a version, with missing fields, in a folder that does not exist yet; damage is refused."""
    file = tmp_path / "not" / "yet" / "position.json"
    names.save_checkpoint_position(names.CheckpointPosition(1, 2, 3), file)
    assert json.loads(file.read_text()) == {"v": 1, "epoch": 1, "microbatch_idx": 2, "global_step": 3}
    file.write_text('{"epoch": 4, "microbatch_idx": 5, "global_step": 6}')
    assert names.load_checkpoint_position(file) == names.CheckpointPosition(4, 5, 6)
    file.write_text('{"epoch": 4}')
    assert names.load_checkpoint_position(file) == names.CheckpointPosition(4, 0, 0)
    for content, says in (
        ('{"v": 2, "epoch": 4}', "version 2"),
        ('{"epoch": -1}', "epoch of a position"),
        ('{"step": 1}', "unknown fields: step"),
        ("[]", "a position is a mapping"),
        ("{", "holds no whole JSON value"),
    ):
        file.write_text(content)
        with pytest.raises(PositionError, match=says):
            names.load_checkpoint_position(file)


def test_positions_as_dictionaries(names: ModuleType) -> None:
    pos = names.CheckpointPosition(1, 2, 3)
    assert pos.to_dict() == {"epoch": 1, "microbatch_idx": 2, "global_step": 3}
    assert names.CheckpointPosition.from_dict(pos.to_dict()) == pos
    assert names.CheckpointPosition.from_dict(pos.to_json()) == pos
    assert names.CheckpointPosition.from_dict({}) == names.CheckpointPosition()
    assert names.CheckpointPosition.from_dict({"global_step": 7}) == names.CheckpointPosition(0, 0, 7)


@pytest.mark.block("batch_plans", 6)
@pytest.mark.parametrize("words", [["data", "batchplan"], ["batchplan"]])
def test_commands(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """With `data` before `batchplan`, and without; the plan as an option."""
    assert main([*words, "info", "-p", "batch_plan/"]) == 0
    whole = capsys.readouterr().out
    assert main([*words, "info", "-p", "batch_plan/", "--rank", "0", "--world-size", "4"]) == 0
    assert capsys.readouterr().out.startswith(whole)
    assert main([*words, "shard", "-p", "batch_plan/", "--world-size", "4", "-o", "shards/"]) == 0
    plan = data.load_batch_plan("batch_plan")
    for rank in range(4):
        shard = data.load_batch_plan(f"shards/rank_{rank}")
        assert shard.fingerprint == plan.shard(rank, 4).fingerprint
    assert main([*words, "verify", "-p", "shards/rank_0"]) == 0


@pytest.mark.parametrize("command", ["info", "verify", "shard"])
def test_a_plan_is_given_once(capsys: pytest.CaptureFixture[str], command: str) -> None:
    rest = ["-w", "2", "-o", "x"] if command == "shard" else []
    for plan, says in (
        ([], "one of the arguments PLAN -p/--plan is required"),
        (["a", "-p", "b"], "not allowed"),
    ):
        with pytest.raises(SystemExit):
            main(["batchplan", command, *plan, *rest])
        assert says in capsys.readouterr().err


class Interrupted(Exception):  # noqa: N818 - a test's own
    """Ends the script in the middle."""


def training_script(names: ModuleType, train: Callable[[Microbatch], None], save_every: int) -> int:
    """The whole script, with a shorter interval; return the global step at its end."""
    config = names.DistributedConfig.from_env()
    mine = names.shard_batch_plan(data.load_batch_plan("./batch_plan/"), config)
    folder = Path(f"./checkpoints/rank_{config.rank}")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "position.json"
    if path.exists():
        pos = names.load_checkpoint_position(path)
    else:
        pos = names.CheckpointPosition(epoch=0, microbatch_idx=0, global_step=0)
    step: int = pos.global_step
    for epoch, index, microbatch in mine.iter_from(pos.epoch, pos.microbatch_idx):
        train(microbatch)
        step += 1
        if step % save_every == 0:
            names.save_checkpoint_position(names.CheckpointPosition(epoch, index + 1, step), path)
    return step


@pytest.mark.block("batch_plans", 7)
def test_script_resumes(names: ModuleType, folder: Path, launched: Launched) -> None:
    """Killed after its second save and started again, it trains on every microbatch once."""
    launched(RANK=1, WORLD_SIZE=2)
    trained: list[list[int]] = []

    def train(microbatch: Microbatch) -> None:
        if len(trained) == 6 and not stopped:
            stopped.append(True)
            raise Interrupted
        trained.append(microbatch.sample_ids.tolist())

    stopped: list[bool] = []
    with pytest.raises(Interrupted):
        training_script(names, train, save_every=3)
    steps = training_script(names, train, save_every=3)
    shard = data.load_batch_plan("batch_plan").shard(1, 2)
    assert trained == ids([mb for _, _, mb in shard.iter_from(0)])
    assert steps == shard.total_microbatches


PLAN_OPTION = """
import argparse, json
from torchdeck.compat.batch_plans import DistributedConfig, get_rank, is_main_process, shard_batch_plan
from torchdeck.data import load_batch_plan

parser = argparse.ArgumentParser()
parser.add_argument("--plan")
config = DistributedConfig.from_env()
shard = load_batch_plan(parser.parse_args().plan)
mine = shard_batch_plan(shard, config)
place = [config.rank, config.world_size, config.is_distributed, get_rank(), is_main_process(), mine is shard]
ids = [int(sample) for microbatch in mine.iter_epoch(0) for sample in microbatch.sample_ids]
print(json.dumps([place, ids]))
"""


@pytest.mark.processes
@pytest.mark.block("batch_plans", 10)
def test_shards_made_in_advance(folder: Path, launched: Launched) -> None:
    """RANK alone: a process of its own, which has its shard whole."""
    assert main(["data", "batchplan", "shard", "-p", "batch_plan/", "-w", "4", "-o", "shards/"]) == 0
    (folder / "train.py").write_text(PLAN_OPTION)
    seen: list[int] = []
    for rank in range(4):
        done = subprocess.run(
            [sys.executable, "train.py", "--plan", f"shards/rank_{rank}/"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "RANK": str(rank)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        place, samples = json.loads(done.stdout)
        assert place == [rank, 1, False, rank, rank == 0, True]
        seen += samples
    assert sorted(seen) == list(range(len(LENGTHS)))


def test_other_contradictions_are_still_refused(launched: Launched) -> None:
    from torchdeck.compat import batch_plans

    launched(RANK=4, WORLD_SIZE=4)
    with pytest.raises(batch_plans.ranks.LauncherVariableError, match="RANK is 4"):
        batch_plans.DistributedConfig.from_env()
    launched(RANK="first")
    with pytest.raises(batch_plans.ranks.LauncherVariableError, match="RANK is 'first'"):
        batch_plans.DistributedConfig.from_env()
