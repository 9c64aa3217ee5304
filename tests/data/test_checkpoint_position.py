"""Positions in a batch plan: their file, and what is left of the plan from there."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.batch_plan import BatchPlan, PlanPosition, build_batch_plan, plan_steps
from torchdeck.data.checkpoint_position import CheckpointPosition, iter_from_checkpoint
from torchdeck.data.order import PositionError

worlds = st.integers(1, 6)


def made_plan(size: int, epochs: int = 2, seed: int = 0) -> BatchPlan:
    lengths = np.random.RandomState(seed).randint(1, 60, size)
    return build_batch_plan(lengths, token_budget=128, seed=seed, epochs=epochs, buckets=4)


PLAN = made_plan(100)


def test_a_position_comes_back_from_its_file(tmp_path: Path) -> None:
    """What was saved is loaded, from a str or a Path, and saving again replaces it; nothing else is left."""
    file = tmp_path / "position.json"
    CheckpointPosition(0, 0, 0).save(file)
    CheckpointPosition(3, 141, 592).save(str(file))
    assert CheckpointPosition.load(file) == CheckpointPosition(epoch=3, microbatch_idx=141, global_step=592)
    assert [path.name for path in tmp_path.iterdir()] == ["position.json"]


def test_a_failed_save_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the new file cannot be put in place, the old one is as it was and no other file remains."""
    file = tmp_path / "position.json"
    CheckpointPosition(1, 2, 3).save(file)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        CheckpointPosition(4, 5, 6).save(file)
    assert CheckpointPosition.load(file) == CheckpointPosition(1, 2, 3)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"v": 1, "epoch": 0, "microb', "holds no whole JSON value"),
        ("", "holds no whole JSON value"),
        ("[" * 100_000, "holds no whole JSON value"),
        ("[1, 2]", "a position is an object with epoch, microbatch_idx and global_step"),
        ('{"v": 2, "epoch": 0, "microbatch_idx": 0, "global_step": 0}', "version 2; this Torchdeck reads"),
        (
            '{"v": 1, "epoch": 0, "microbatch_idx": 0}',
            "global_step of a position must be a whole number from 0, not None",
        ),
        ('{"v": 1, "epoch": -1, "microbatch_idx": 0, "global_step": 0}', "epoch of a position must be"),
        ('{"v": 1, "epoch": 0, "microbatch_idx": 1.5, "global_step": 0}', "microbatch_idx of a position"),
        ('{"v": 1, "epoch": 0, "microbatch_idx": 0, "global_step": true}', "global_step of a position"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    """Cut short, of another kind, of a newer version, or with values that cannot be: named with its path."""
    file = tmp_path / "position.json"
    file.write_text(content)
    with pytest.raises(PositionError, match=message) as raised:
        CheckpointPosition.load(file)
    assert str(file) in str(raised.value)


def test_a_position_of_another_plan_is_refused() -> None:
    """An epoch or microbatch that the plan does not have; its very end is a position, with nothing left."""
    count = PLAN.microbatches(1)
    assert list(iter_from_checkpoint(PLAN, CheckpointPosition(2, 0, 9))) == []
    assert list(iter_from_checkpoint(PLAN, CheckpointPosition(1, count, 9))) == []
    for position, message in (
        (CheckpointPosition(2, 1, 0), "in epoch 2, but the batch plan has 2: it is not the plan"),
        (
            CheckpointPosition(1, count + 1, 0),
            f"{count + 1} microbatches of epoch 1 are used, but the batch plan has",
        ),
    ):
        with pytest.raises(PositionError, match=message):
            iter_from_checkpoint(PLAN, position)
        with pytest.raises(PositionError, match=message):
            position.advanced(PLAN, 1)
    with pytest.raises(PositionError, match="the batch plan is over: it has 2 epochs"):
        CheckpointPosition(2, 0, 9).advanced(PLAN, 1)
    with pytest.raises(ValueError, match="rank is 3: expected a whole number from 0 to 2"):
        iter_from_checkpoint(PLAN, CheckpointPosition(), rank=3, world_size=3)


def test_one_reader_gets_what_iter_from_gives() -> None:
    """Without ranks it is the plan from the position on, in its order."""
    found = iter_from_checkpoint(PLAN, CheckpointPosition(1, 3, 0))
    wanted = PLAN.iter_from(1, 3)
    assert [(epoch, index) for epoch, index, _ in found] == [(epoch, index) for epoch, index, _ in wanted]


@settings(deadline=None)
@given(
    st.integers(1, 120),
    st.integers(0, 5),
    st.lists(st.tuples(worlds, st.integers(1, 3), st.integers(0, 4)), max_size=8),
    worlds,
)
def test_stops_and_changes_use_every_sample_once(
    size: int, seed: int, lives: list[tuple[int, int, int]], last: int
) -> None:
    """Stopped after any steps and resumed at any world size and accumulation: each epoch is the data set."""
    plan = made_plan(size, seed=seed)
    used: list[list[int]] = [[], []]
    position = CheckpointPosition()
    for world_size, accumulation, steps in lives:
        for _ in range(steps):
            if position.epoch == plan.epochs:
                break
            after = position.advanced(plan, world_size * accumulation)
            for rank in range(world_size):
                for epoch, index, microbatch in iter_from_checkpoint(
                    plan, position, rank=rank, world_size=world_size
                ):
                    if (epoch, index) >= (after.epoch, after.microbatch_idx):
                        break
                    used[epoch] += microbatch.sample_ids.tolist()
            position = CheckpointPosition.from_json(json.loads(json.dumps(after.to_json())))
    for rank in range(last):
        for epoch, _, microbatch in iter_from_checkpoint(plan, position, rank=rank, world_size=last):
            used[epoch] += microbatch.sample_ids.tolist()
    assert [sorted(epoch) for epoch in used] == [list(range(size))] * 2


@settings(deadline=None)
@given(worlds, st.integers(1, 4))
def test_positions_are_those_of_planned_steps(world_size: int, accumulation: int) -> None:
    """Step for step the position after is the one that the trainer's own steps have."""
    position = CheckpointPosition()
    for step in plan_steps(PLAN, world_size=world_size, accumulation=accumulation):
        position = position.advanced(PLAN, world_size * accumulation)
        assert step.after == PlanPosition(position.epoch, position.microbatch_idx, position.global_step)
