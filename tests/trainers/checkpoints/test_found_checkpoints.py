"""Checkpoints of trainers are recognised by name, and complete by each kind's own sign."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

from torchdeck.trainers.checkpoints.checkpoint_kinds import CheckpointKind
from torchdeck.trainers.checkpoints.checkpoint_search import find_checkpoints, look_at
from torchdeck.trainers.checkpoints.files import MIN_SIZE
from torchdeck.trainers.checkpoints.places import checkpoint_places

WEIGHTS = bytes(MIN_SIZE)


def zipped(path: Path) -> Path:
    """A file as torch.save writes it: an uncompressed zip archive."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", WEIGHTS)
    return path


def safetensors(path: Path) -> Path:
    header = json.dumps({"w": {"dtype": "U8", "shape": [MIN_SIZE], "data_offsets": [0, MIN_SIZE]}}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(header).to_bytes(8, "little") + header + WEIGHTS)
    return path


def folder(path: Path, **files: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)
    return path


def found(path: Path) -> tuple[CheckpointKind, int | None, bool]:
    seen = look_at(path)
    assert seen is not None, path
    assert seen.path == str(path)
    return seen.kind, seen.step, not seen.incomplete


def test_hugging_face_is_complete_with_its_trainer_state(tmp_path: Path) -> None:
    """Which is written last; a save on SIGTERM has a file that says it is not finished."""
    saved = folder(tmp_path / "out/checkpoint-40", model__safetensors="x")
    assert found(saved) == (CheckpointKind.HUGGING_FACE, 40, False)
    (saved / "trainer_state.json").write_text('{"global_step": 40, "log_hist')
    assert found(saved) == (CheckpointKind.HUGGING_FACE, 40, False)
    (saved / "trainer_state.json").write_text('{"global_step": 40, "log_history": []}')
    assert found(saved) == (CheckpointKind.HUGGING_FACE, 40, True)
    (saved / "checkpoint-is-incomplete.txt").write_text("")
    assert found(saved) == (CheckpointKind.HUGGING_FACE, 40, False)


def test_a_trainer_state_too_long_to_parse_is_judged_by_its_end(tmp_path: Path) -> None:
    """The step is in the folder's name."""
    saved = folder(tmp_path / "out/checkpoint-40", model__safetensors="x")
    with (saved / "trainer_state.json").open("wb") as state:
        state.truncate(40 << 20)
        assert found(saved) == (CheckpointKind.HUGGING_FACE, 40, False)
        state.seek(0, os.SEEK_END)
        state.write(b'"global_step": 40\n}\n')
    assert found(saved) == (CheckpointKind.HUGGING_FACE, 40, True)


def test_accelerate_is_complete_with_its_random_states(tmp_path: Path) -> None:
    """The number of checkpoint_N counts saves, not steps."""
    files = {"model__safetensors": "x", "random_states_0__pkl": "x"}
    assert found(folder(tmp_path / "checkpoint-200", **files)) == (CheckpointKind.ACCELERATE, 200, True)
    assert found(folder(tmp_path / "step_30", **files)) == (CheckpointKind.ACCELERATE, 30, True)
    assert found(folder(tmp_path / "checkpoint_2", **files)) == (CheckpointKind.ACCELERATE, None, True)
    (tmp_path / "checkpoint-200/model.safetensors").unlink()  # the weights are on another node's disk
    assert found(tmp_path / "checkpoint-200") == (CheckpointKind.ACCELERATE, 200, False)


@pytest.mark.parametrize("sign", [".metadata", "model.safetensors.index.json"])
def test_torchtitan_is_complete_with_its_index(tmp_path: Path, sign: str) -> None:
    saved = folder(tmp_path / "checkpoint/step-500", __0_0__distcp="x")
    assert found(saved) == (CheckpointKind.TORCHTITAN, 500, False)
    (saved / sign).write_text("x")
    assert found(saved) == (CheckpointKind.TORCHTITAN, 500, True)


@pytest.mark.parametrize(
    ("kind", "name", "tracker", "older", "own"),
    [
        (CheckpointKind.DEEPSPEED, "global_step20", "latest", "global_step10", "global_step20"),
        (CheckpointKind.VERL, "global_step_20", "latest_checkpointed_iteration.txt", "10", "20"),
        (CheckpointKind.MEGATRON, "iter_0000020", "latest_checkpointed_iteration.txt", "10", "20\n"),
    ],
)
def test_a_tracker_file_says_which_folders_are_complete(
    tmp_path: Path, kind: CheckpointKind, name: str, tracker: str, older: str, own: str
) -> None:
    saved = folder(tmp_path / name)
    assert found(saved) == (kind, 20, False)
    (tmp_path / tracker).write_text(older)
    assert found(saved) == (kind, 20, False)
    (tmp_path / tracker).write_text(own)
    assert found(saved) == (kind, 20, True)


@pytest.mark.parametrize(
    ("name", "kind", "step"),
    [
        ("epoch=2-step=60.ckpt", CheckpointKind.LIGHTNING, 60),
        ("last.ckpt", CheckpointKind.LIGHTNING, None),
        ("last-v1.ckpt", CheckpointKind.LIGHTNING, None),
        ("hpc_ckpt_3.ckpt", CheckpointKind.LIGHTNING, None),
        ("ckpt.pt", CheckpointKind.NANOGPT, None),
        ("snapshot.pt", CheckpointKind.SNAPSHOT, None),
        ("model_step_0500.pt", CheckpointKind.WEIGHTS, 500),
        ("model_epoch3.pth", CheckpointKind.WEIGHTS, None),
    ],
)
def test_files_are_complete_with_their_end_record(
    tmp_path: Path, name: str, kind: CheckpointKind, step: int | None
) -> None:
    saved = zipped(tmp_path / name)
    assert found(saved) == (kind, step, True)
    saved.write_bytes(saved.read_bytes()[:-30])
    assert found(saved) == (kind, step, False)


def test_safetensors_are_complete_with_all_bytes_of_their_header(tmp_path: Path) -> None:
    saved = safetensors(tmp_path / "model-7.safetensors")
    assert found(saved) == (CheckpointKind.WEIGHTS, None, True)
    saved.write_bytes(saved.read_bytes()[:-1])
    assert found(saved) == (CheckpointKind.WEIGHTS, None, False)


def test_safetensors_with_a_header_too_long_to_parse_are_complete_with_the_header(tmp_path: Path) -> None:
    """Up to the longest that the library reads: 100 MB."""
    saved = tmp_path / "model-7.safetensors"
    for length, size, whole in [
        (40 << 20, 41 << 20, True),
        (40 << 20, 39 << 20, False),
        (10**8 + 1, 120 << 20, False),
    ]:
        with saved.open("wb") as file:
            file.write(length.to_bytes(8, "little"))
            file.truncate(size)
        assert found(saved) == (CheckpointKind.WEIGHTS, None, whole)


@pytest.mark.parametrize(
    "name", ["model.pt", "train_001.bin", "rng_state_0.pth", "model-00001-of-00002.safetensors", "a1.txt"]
)
def test_other_files_are_none(tmp_path: Path, name: str) -> None:
    assert look_at(zipped(tmp_path / name)) is None


def test_a_search_finds_each_checkpoint_once_and_nothing_within_one(tmp_path: Path) -> None:
    state = folder(tmp_path / "out/checkpoint-10", trainer_state__json='{"global_step": 10}')
    zipped(state / "pytorch_model_1.pt")
    single = zipped(tmp_path / "ckpt.pt")
    zipped(tmp_path / ".venv/model_1.pt")
    zipped(tmp_path / "home/runs/x/model_1.pt")
    (tmp_path / "latest_1.pt").symlink_to(single)
    seen = find_checkpoints([tmp_path, tmp_path / "out", tmp_path / "none"], [tmp_path / "home"])
    assert {each.path for each in seen} == {str(state), str(single)}


def test_folders_that_arguments_name_elsewhere_are_looked_into(tmp_path: Path) -> None:
    here, there, other = tmp_path / "project", tmp_path / "out", tmp_path / "more"
    command = ("python", "-u", "train.py", "--output_dir", str(there), f"--save={other}", "--lr", "1e-3")
    assert checkpoint_places(here, command) == [here, there, other]
