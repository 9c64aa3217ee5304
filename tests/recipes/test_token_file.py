"""Tokens in a file as samples."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.recipes import byte_gpt
from torchdeck.recipes.next_token import TokenWindows, build_token_windows


def windows(path: Path, split: str = "train", **options: Any) -> TokenWindows:
    given: dict[str, Any] = {"context": 4, "vocabulary": 1000, "heldout": 0.25} | options
    data = build_token_windows(str(path), split, **given)
    assert data is not None
    return data


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "npy"])
def test_windows_follow_each_other(dtype: str, tmp_path: Path) -> None:
    """Sample i is tokens 4·i to 4·i + 4 and those one further; what is held out is at the end."""
    numbers = np.arange(1, 41)
    path = tmp_path / ("tokens.npy" if dtype == "npy" else "tokens.bin")
    if dtype == "npy":
        np.save(path, numbers.astype(np.int32))
    else:
        numbers.astype(dtype).tofile(path)
    train, held = windows(path, dtype=dtype), windows(path, "heldout", dtype=dtype)
    assert [train[i][0].tolist() for i in range(len(train))] == [
        list(range(i, i + 4)) for i in range(1, 29, 4)
    ]
    assert train[1][1].tolist() == [6, 7, 8, 9]
    assert held[0][0].tolist() == [32 - 1, 32, 33, 34]
    assert len(held) == 2
    with pytest.raises(IndexError):
        train[len(train)]


def test_a_token_outside_of_the_vocabulary_is_named(tmp_path: Path) -> None:
    """It is found when its sample is read, and the message has token, position in the file, and file."""
    numbers = np.arange(100, dtype=np.uint16)
    numbers[87] = 1000
    numbers.tofile(tmp_path / "tokens.bin")
    held = windows(tmp_path / "tokens.bin", "heldout")
    assert held[0][0].tolist() == [75, 76, 77, 78]
    with pytest.raises(RecipeError, match=r"token 1000 at position 87 of .*tokens.bin .* vocabulary of 1000"):
        held[2]


@pytest.mark.parametrize("name", ["tokens.npy", "tokens.bin"])
def test_a_worker_maps_the_file_too(name: str, tmp_path: Path) -> None:
    """What a loader's process is sent has none of the tokens in it, and gives the same samples."""
    numbers = np.arange(50_000, dtype=np.uint32)
    path = tmp_path / name
    np.save(path, numbers) if name.endswith("npy") else numbers.tofile(path)
    data = windows(path, vocabulary=50_000, dtype="uint32")
    sent = pickle.dumps(data)
    assert len(sent) < 2_000
    again = pickle.loads(sent)  # noqa: S301 - written by the line above
    assert isinstance(again._tokens, np.memmap)
    assert again[7_001][0].tolist() == data[7_001][0].tolist() == [28_004, 28_005, 28_006, 28_007]
    assert again.fingerprint == data.fingerprint


def test_a_negative_number_is_no_token(tmp_path: Path) -> None:
    """It is named when its sample is read."""
    np.save(tmp_path / "tokens.npy", np.array([1, 2, -3] + [4] * 17, dtype=np.int16))
    with pytest.raises(RecipeError, match=r"token -3 at position 2 of .*tokens.npy"):
        windows(tmp_path / "tokens.npy")[0]


def test_other_files_get_a_sentence(tmp_path: Path) -> None:
    """No file, an empty one, half a number, other types and shapes, and too few tokens are told."""
    path = tmp_path / "tokens.bin"
    with pytest.raises(RecipeError, match=r"cannot be read as tokens: .*No such file"):
        windows(path)
    path.touch()
    with pytest.raises(RecipeError, match="cannot be read as tokens"):
        windows(path)
    path.write_bytes(b"\1\0\2")
    with pytest.raises(RecipeError, match="cannot be read as tokens"):
        windows(path)
    with pytest.raises(RecipeError, match=r"data.token_dtype is 'int8'"):
        windows(path, dtype="int8")
    np.arange(6, dtype=np.uint16).tofile(path)
    with pytest.raises(RecipeError, match=r"heldout part of .* has 1 tokens, too few for one sample of 4"):
        windows(path, "heldout")
    for wrong in (np.zeros(9), np.zeros((3, 9), np.uint8)):
        np.save(tmp_path / "tokens.npy", wrong)
        with pytest.raises(RecipeError, match="give whole numbers of shape"):
            windows(tmp_path / "tokens.npy")


def test_fingerprints_tell_files_and_parts_apart(tmp_path: Path) -> None:
    """The same tokens elsewhere are the same; another token, type or part is not."""
    for name in "ab":
        np.arange(100, dtype=np.uint16).tofile(tmp_path / f"{name}.bin")
    first = windows(tmp_path / "a.bin").fingerprint
    assert windows(tmp_path / "b.bin").fingerprint == first
    assert windows(tmp_path / "b.bin", heldout=0.5).fingerprint != first
    changed = np.arange(100, dtype=np.uint16)
    changed[50] = 7
    changed.tofile(tmp_path / "b.bin")
    assert windows(tmp_path / "b.bin").fingerprint != first


def test_the_recipe_reads_tokens_of_its_vocabulary(tmp_path: Path) -> None:
    """[model] vocabulary sizes the model and bounds the data; [data] workers is the trainer's."""
    path = tmp_path / "tokens.bin"
    (np.arange(200) % 300).astype(np.uint16).tofile(path)
    model = {"layers": 1, "heads": 2, "width": 8, "context": 12, "dropout": 0.0, "vocabulary": 300}
    options = byte_gpt.data_options(model, {"tokens": str(path), "workers": 2, "heldout": 0.0})
    data = byte_gpt.build_data(options, "train")
    assert data is not None
    assert byte_gpt.build_data(options, "heldout") is None
    tokens, targets = data[0]
    loss, count = byte_gpt.loss(byte_gpt.build_model(model), (tokens[None], targets[None]))
    assert count == 12
    assert float(loss.detach()) == pytest.approx(np.log(300), abs=0.2)
