"""What is said of files that torch refuses."""

import pickle
from pathlib import Path

import pytest
import torch

from torchdeck.distributed.checkpoints.peers import refusal


class Asking:
    """Asks for a function when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("never",)


def test_what_a_file_asks_for_is_named(tmp_path: Path) -> None:
    """The function's name, and not torch's advice to read the file without its guard."""
    torch.save({"weight": Asking()}, tmp_path / "file.pt")
    with pytest.raises(pickle.UnpicklingError) as error:
        torch.load(tmp_path / "file.pt", weights_only=True)
    assert "weights_only" in str(error.value)
    said = refusal(error.value)
    assert "asks for " in said
    assert "print, which tensors never need" in said


def test_other_errors_are_their_first_line() -> None:
    """What is no pickle at all, and errors without words."""
    assert refusal(pickle.UnpicklingError("Weights only load failed.\nmore")) == (
        "it is damaged, or not a file of tensors"
    )
    assert refusal(ValueError("first\nsecond")) == "first"
    assert refusal(ValueError()) == "ValueError"
