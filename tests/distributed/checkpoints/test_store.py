"""Saving and loading in real ranks over gloo: one process, DDP and FSDP2."""

import os
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from support.ranks.ranked_scenario import scenario
from support.system.small_disk import mounted
from support.values.checkpoint_files import flip
from torchdeck.contract.checkpoints.listing import list_checkpoints
from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, CheckpointError, Manifest, read_manifest
from torchdeck.contract.checkpoints.verification import hash_file, verify
from torchdeck.distributed.checkpoints.retention import Retention
from torchdeck.distributed.checkpoints.store import CheckpointStore, TrainState


@pytest.mark.processes
@pytest.mark.parametrize(
    ("strategy", "world_size", "how"),
    [
        ("single", 1, "at once"),
        pytest.param("single", 1, "background", marks=pytest.mark.soak),
        pytest.param("ddp", 2, "at once", marks=pytest.mark.soak),
        pytest.param("ddp", 2, "background", marks=pytest.mark.soak),
        pytest.param("fsdp", 2, "at once", marks=pytest.mark.soak),
        ("fsdp", 2, "background"),
        # of our trainer: tests/distributed/training/test_exact_resume.py
        pytest.param("hsdp", 4, "background", marks=pytest.mark.soak),
    ],
)
def test_resume_is_bit_exact(tmp_path: Path, strategy: str, world_size: int, how: str) -> None:
    """2n steps, and n, stop, resume, n: the same losses, weights and optimizer state on every rank."""
    outcome = scenario(tmp_path, "resuming.exact_resume", strategy, str(world_size), how)
    assert outcome["joined"] == outcome["straight"]
    assert outcome["loaded"] == [[3, {"epoch": 1}, {"scale": 0.1 + 0.2}, True, ""]] * world_size
    losses = [rank[0] for rank in outcome["straight"]]
    assert len({loss for rank in losses for loss in rank}) == 6 * world_size, (
        "the ranks trained on their own data"
    )
    assert verify(tmp_path / "saved" / "step_00000003") == []


@pytest.mark.processes
def test_another_world_size_loads_the_same_weights(tmp_path: Path) -> None:
    """Between FSDP, DDP and one process weights are bit-identical, and random state follows the rule."""
    outcome = scenario(tmp_path, "resuming.other_world")
    sharded, statistics_of_rank_1, alone = outcome["saved"]
    loaded = outcome["loaded"]
    assert [rank[:3] for rank in loaded["fsdp2→ddp2"]] == [
        [sharded, True, ""],
        [statistics_of_rank_1, True, ""],
    ]
    for name, expected in [("fsdp2→single", sharded), ("single→fsdp2", alone), ("single→ddp2", alone)]:
        for weights, rng_restored, notice, _ in loaded[name]:
            assert weights == expected
            assert not rng_restored
            assert "weights are bit-identical, random numbers are derived again" in notice
    drawn = [rank[3] for rank in loaded["single→fsdp2"]]
    assert (
        drawn
        == [rank[3] for rank in loaded["single→ddp2"]]
        == [rank[3] for rank in loaded["single→ddp2 again"]]
    )
    assert drawn[0] != drawn[1]


@pytest.mark.processes
@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.soak), 1])
def test_one_rank_that_cannot_write_fails_the_save_for_all(tmp_path: Path, rank: int) -> None:
    """All ranks raise the same sentence, nothing is left or lost, and the next save works."""
    outcome = scenario(tmp_path, "failing_saves.one_rank_fails", str(rank))
    # how much of the disk is free stands in it, too, as each saw it
    sentences = {re.sub(r"\d+ MiB", "", ended["sentence"]) for ended in outcome["ranks"]}
    assert len(sentences) == 1
    assert f"rank {rank}: File too large" in sentences.pop()
    for ended in outcome["ranks"]:
        assert ended["listed"] == [".lock", ".writer", "step_00000001"]
        assert ended["later"] == "step_00000003"
    assert outcome["problems"] == []


@pytest.mark.processes
def test_ranks_that_hold_different_tensors_save_nothing(tmp_path: Path) -> None:
    """A checkpoint without a tensor is never made: both ranks are told which, in the same sentence."""
    # how much of the disk is free stands in it, too, as each saw it
    first, second = (
        re.sub(r"\d+ MiB", "", said) for said in scenario(tmp_path, "failing_saves.different_states")
    )
    assert first == second
    assert "no rank gave optimizer.0." in first
    assert list_checkpoints(tmp_path / "saved") == []


@pytest.mark.processes
def test_a_load_is_refused_by_all_ranks_alike(tmp_path: Path) -> None:
    """A flipped byte, another model, another optimizer: the same sentence on every rank, nothing changed."""
    outcome = scenario(tmp_path, "resuming.refused_together")
    assert outcome[0] == outcome[1]
    damaged, wider, sgd, unchanged, step = outcome[0]
    assert ".distcp is damaged: SHA-256" in damaged
    assert "embedding.weight is (13, 10) in the checkpoint and (13, 12) in this run's model" in wider
    assert "the checkpoint's optimizer is AdamW, this run's is SGD" in sgd
    assert (unchanged, step) == ("True", "1")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    with mounted(mount, "size=2m"):
        yield mount


@pytest.mark.processes
@pytest.mark.parametrize("how", ["at once", "background"])
def test_a_full_disk_fails_the_save_and_nothing_else(tmp_path: Path, small_disk: Path, how: str) -> None:
    """Every rank is told once, in one sentence; the half-written checkpoint is gone, the earlier sound."""
    outcome = scenario(tmp_path, "failing_saves.disk_full", str(small_disk), how)
    assert outcome["ranks"][0] == outcome["ranks"][1]
    assert "checkpoint step_00000002 could not be saved" in outcome["ranks"][0][0]
    assert "No space left on device" in outcome["ranks"][0][0]
    assert "earlier checkpoints are untouched" in outcome["ranks"][0][0]
    assert outcome["ranks"][0][1:] == ([] if how == "at once" else [""])
    assert outcome["listed"] == [".lock", ".writer", "step_00000001"]
    assert outcome["problems"] == []


class Program:
    """Unpickled freely, makes a folder."""

    def __init__(self, target: Path) -> None:
        self._target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._target),)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CheckpointStore]:
    """The store of a single process, under tmp_path / "saved"."""
    opened = CheckpointStore(tmp_path / "saved", Retention(2), "test-run", 1, 0, 1, "single")
    yield opened
    opened.close()


def _state() -> TrainState:
    model = nn.Linear(3, 2)
    return TrainState(model, [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)], extra={"tokens": 5})


def _with_fitting_hashes(folder: Path) -> None:
    manifest = read_manifest(folder)
    files = {name: hash_file(folder / name) for name in manifest.files}
    (folder / MANIFEST_NAME).write_bytes(Manifest(**{**vars(manifest), "files": files}).render())


@pytest.mark.parametrize("name", [".metadata", "rank_00000.pt", "__0_0.distcp"])
def test_a_program_with_fitting_hashes_does_not_run(
    tmp_path: Path, store: CheckpointStore, name: str
) -> None:
    """Whoever can write a checkpoint can make its hashes fit; still nothing in it is executed."""
    folder = store.save(_state(), 1)
    (folder / name).write_bytes(pickle.dumps(Program(tmp_path / "made")))
    _with_fitting_hashes(folder)
    assert verify(folder) == []
    with pytest.raises(CheckpointError, match="loading checkpoint"):
        store.load(folder, _state())
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "name", [".metadata", "rank_00000.pt", "__0_0.distcp", "trainer.json", MANIFEST_NAME]
)
def test_a_flipped_byte_is_refused_before_anything_is_read(store: CheckpointStore, name: str) -> None:
    """Any file, any place: the load is refused, the file named, and the model is as it was."""
    folder = store.save(_state(), 1)
    state = _state()
    before = [param.clone() for param in state.model.parameters()]
    for offset in (0, 17, (folder / name).stat().st_size // 2, -1):
        flip(folder / name, offset, 1)
        with pytest.raises(CheckpointError, match=name):
            store.load(folder, state)
        flip(folder / name, offset, 1)
    assert all(torch.equal(*pair) for pair in zip(before, state.model.parameters(), strict=True))
    assert store.load(folder, state).extra == {"tokens": 5}


def test_rotation_and_final(tmp_path: Path, store: CheckpointStore) -> None:
    """keep_last steps stay, `final` always, and saving the same step again replaces it."""
    state = _state()
    for step in (1, 2, 2, 3):
        store.save(state, step)
    store.save(state, 3, final=True)
    store.save(state, 4)
    listed = [(info.path.name, info.complete) for info in list_checkpoints(tmp_path / "saved")]
    assert listed == [("step_00000003", True), ("final", True), ("step_00000004", True)]


def test_the_manifest_says_what_was_saved(store: CheckpointStore) -> None:
    """Step, world size, strategy, run, attempt and position stand in it; every file but itself is listed."""
    state = _state()
    state.position = {"v": 1, "epoch": 2, "consumed": 3, "step": 7}
    folder = store.save(state, 7)
    manifest = read_manifest(folder)
    assert (manifest.step, manifest.world_size, manifest.strategy) == (7, 1, "single")
    assert (manifest.run_id, manifest.attempt, manifest.position) == ("test-run", 1, state.position)
    assert {path.name for path in folder.iterdir()} == {*manifest.files, MANIFEST_NAME}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_state_that_cannot_be_saved_is_named(tmp_path: Path, store: CheckpointStore) -> None:
    """A tensor in the trainer's own state is refused with its path, and nothing is left over."""
    state = _state()
    state.extra = {"average": [torch.zeros(1)]}
    with pytest.raises(CheckpointError, match=r"extra\.average\[0\]"):
        store.save(state, 1)
    assert list_checkpoints(tmp_path / "saved") == []
