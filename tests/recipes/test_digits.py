"""The classifier of digits: its data, and what it learns."""

import re
import sys
from pathlib import Path

import pytest
import torch

from support.ranks.recipe_ranks import recipe_settings
from support.training.forked_training import ForkedRun, run_forked
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.recipes import digits


def test_the_pictures_are_parted_once() -> None:
    """Four fifths to train on and the rest held out, each picture in one part, values from 0 to 1."""
    plain = {"augmentation": "none"}
    train, held = digits.build_data(plain, "train"), digits.build_data(plain, "heldout")
    assert train is not None
    assert held is not None
    parts = [[data[i] for i in range(len(data))] for data in (train, held)]
    assert [len(part) for part in parts] == [1438, 359]
    pictures = torch.stack([picture for part in parts for picture, _ in part])
    assert pictures.shape == (1797, 1, 8, 8)
    assert (float(pictures.min()), float(pictures.max())) == (0.0, 1.0)
    assert len({picture.numpy().tobytes() for picture in pictures}) == 1797
    assert {int(digit) for _, digit in parts[1]} == set(range(10))
    assert digits.build_data({"heldout": 0.0}, "heldout") is None


def test_training_pictures_are_changed_and_held_out_ones_are_not() -> None:
    """An epoch changes a picture in its own way, which can be had again."""
    plain, changed = ({"augmentation": name} for name in ("none", "moderate"))
    train, same = digits.build_data(changed, "train"), digits.build_data(plain, "train")
    assert train is not None
    assert same is not None
    first = train[3][0].clone()
    assert not torch.equal(first, same[3][0])
    train.set_epoch(1)  # type: ignore[attr-defined]
    assert not torch.equal(first, train[3][0])
    train.set_epoch(0)  # type: ignore[attr-defined]
    assert torch.equal(first, train[3][0])
    held = [digits.build_data(options, "heldout") for options in (plain, changed)]
    assert held[0] is not None
    assert held[1] is not None
    assert torch.equal(held[0][3][0], held[1][3][0])


def test_the_fingerprint_is_of_data_and_its_options() -> None:
    """Another augmentation is other data; more loader processes are not."""
    first = digits.fingerprint({"augmentation": "mild"})
    assert digits.fingerprint({"augmentation": "mild", "workers": 2}) == first
    assert digits.fingerprint({"augmentation": "none"}) != first


def test_a_missing_package_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the extra to install."""
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(RecipeError, match=r"needs scikit-learn, .*pip install 'torchdeck\[digits\]'"):
        digits.build_data({}, "train")


@pytest.mark.parametrize("options", [{"augmentation": "wild"}, {"augmentation": "Mild"}])
def test_an_unknown_augmentation_is_refused(options: dict[str, str]) -> None:
    """The presets there are are said."""
    with pytest.raises(RecipeError, match="expected none, mild, moderate, aggressive"):
        digits.build_data(options, "train")


@pytest.mark.processes
def test_over_97_of_100_are_told_right(tmp_path: Path) -> None:
    """Two real ranks, some seconds: accuracy on pictures never trained on, as the run itself reports it."""
    settings = recipe_settings(
        tmp_path,
        "digits",
        data={"augmentation": "mild"},
        steps=100,
        microbatch=32,
        lr=4e-3,
        schedule="cosine",
        eval_every=100,
        eval_batches=12,
        final=False,
    )
    ranks = run_forked(ForkedRun(tmp_path, settings, world_size=2))[0].succeeded()
    found = re.findall(r"validation_accuracy (\S+)", ranks.stdout[0])
    assert found, ranks.stdout[0][-500:]
    assert float(found[-1]) > 0.97
