"""The step that a checkpoint names in itself, read without executing it."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch

from torchdeck.trainers.checkpoints.pickled_step import step_inside


def saved(folder: Path, value: Any) -> Path:
    path = folder / "ckpt.pt"
    torch.save(value, path)
    return path


def trained() -> dict[str, Any]:
    """Model and optimizer after one step: the optimizer has steps of its own."""
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


@pytest.mark.parametrize(
    ("more", "step"),
    [
        ({"iter_num": 900, "best_val_loss": 1.5, "config": {"max_iters": 2000, "step": 3}}, 900),
        ({"global_step": 70_000, "epoch": 3, "loops": {"state": {"global_step": 9, "other": 1}}}, 70_000),
        ({"epoch": 7, "step": 12}, 12),
        ({"iteration": 2**40}, 2**40),
        ({"epoch": 7}, None),
        ({"step": torch.tensor(5)}, None),
        ({"step": "iter_num"}, None),
        ({"iter_num": -1}, None),
        ({}, None),
    ],
)
def test_a_known_key_of_the_outermost_dictionary_is_the_step(
    more: dict[str, Any], step: int | None, tmp_path: Path
) -> None:
    """nanoGPT's, Lightning's, others'; not those of the optimizer or of a configuration."""
    assert step_inside(saved(tmp_path, {**trained(), **more})) == step
    assert step_inside(saved(tmp_path, {**more, **trained()})) == step


class Harmful:
    """Removes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.unlink, (str(self.path),)


def test_nothing_is_executed(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    witness.touch()
    assert step_inside(saved(tmp_path, {"bad": Harmful(witness), "iter_num": 5})) == 5
    assert witness.exists()


def test_other_files_have_no_step(tmp_path: Path) -> None:
    """Not there, empty, of the format before zip files, a tensor."""
    path = tmp_path / "ckpt.pt"
    assert step_inside(path) is None
    path.touch()
    assert step_inside(path) is None
    torch.save({"iter_num": 5}, path, _use_new_zipfile_serialization=False)
    assert step_inside(path) is None
    assert step_inside(saved(tmp_path, torch.ones(3))) is None


def test_a_number_that_no_program_counts_to_is_no_step(tmp_path: Path) -> None:
    assert step_inside(saved(tmp_path, {"iter_num": 2**999, "step": 7})) == 7


def test_no_memory_is_reserved_for_a_size_that_a_file_claims(tmp_path: Path) -> None:
    """The size of a member is in the file's directory, where anything can be written."""
    path = tmp_path / "ckpt.pt"
    torch.save({"iter_num": 5}, path)
    content = bytearray(path.read_bytes())
    entry = content.index(b"data.pkl", content.index(b"PK\x01\x02")) - len("ckpt/") - 46
    assert content[entry : entry + 4] == b"PK\x01\x02"
    content[entry + 20 : entry + 24] = (1 << 31).to_bytes(4, "little")  # its compressed size
    path.write_bytes(content)
    tracemalloc.start()
    assert step_inside(path) is None
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 64 << 20
