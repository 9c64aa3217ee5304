"""The classifier of folders of images: what it reads, and what it learns."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from support.ranks.recipe_ranks import recipe_settings
from support.system.deepspeed_python import ABSENT, deepspeed_python
from support.training.image_files import CLASSES, write_images
from support.training.strategies import STRATEGIES, Settings, resumed_exactly
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.recipes import image_folder
from torchdeck.recipes.image_folder import DEVIATION, MEAN, normalised, read_image
from torchdeck.recipes.resnet import STAGES, ResNet

PLAIN = {"classes": len(CLASSES), "size": 16, "augmentation": "none", "flip": False}


def options(folder: Path, **more: Any) -> dict[str, Any]:
    return {**PLAIN, "source": str(folder), **more}


def samples(folder: Path, split: str, **more: Any) -> list[tuple[torch.Tensor, int]]:
    data = image_folder.build_data(options(folder, **more), split)
    assert data is not None
    return [data[index] for index in range(len(data))]


def test_images_are_parted_once(tmp_path: Path) -> None:
    """A tenth is held out; each image is in one part, of the class that its folder has by its name."""
    write_images(tmp_path, 10)
    train, held = (samples(tmp_path, split) for split in ("train", "heldout"))
    assert (len(train), len(held)) == (27, 3)
    assert len({image.numpy().tobytes() for image, _ in [*train, *held]}) == 30
    for image, number in [*train, *held]:
        assert image.shape == (3, 16, 16)
        assert int(image.mean((1, 2)).argmax()) == 2 - number, (
            "blue is the first by name, and the third channel"
        )
    assert image_folder.build_data(options(tmp_path, heldout=0.0), "heldout") is None


def test_a_source_with_train_alone_is_parted(tmp_path: Path) -> None:
    """Its folder test is no class; an empty class is refused, and a class may be called train."""
    write_images(tmp_path / "train", 10)
    write_images(tmp_path / "test", 2)
    assert [len(samples(tmp_path, split)) for split in ("train", "heldout")] == [27, 3]
    (tmp_path / "train" / "yellow").mkdir()
    with pytest.raises(RecipeError, match="has no images in yellow: their names end with"):
        samples(tmp_path, "train", classes=4)
    write_images(tmp_path / "vehicles", 2)
    (tmp_path / "vehicles" / "red").rename(tmp_path / "vehicles" / "train")
    assert len(samples(tmp_path / "vehicles", "train", heldout=0.0)) == 6


def test_a_source_may_be_split_already(tmp_path: Path) -> None:
    """Folders train and val, with the classes of train."""
    write_images(tmp_path / "train", 3)
    write_images(tmp_path / "val", 2, seed=1)
    assert [len(samples(tmp_path, split)) for split in ("train", "heldout")] == [9, 6]


def test_an_image_is_scaled_and_cut_at_its_center(tmp_path: Path) -> None:
    """Seven eighths of the shorter side remain; values are ImageNet's."""
    pixels = np.zeros((64, 128, 3), np.uint8)
    pixels[:, 36:92] = 255  # the 56 columns at the center
    Image.fromarray(pixels).save(tmp_path / "a.png")
    found = read_image(tmp_path / "a.png", 56)
    assert torch.equal(found, torch.ones(3, 56, 56))
    white = torch.tensor([(1 - mean) / deviation for mean, deviation in zip(MEAN, DEVIATION, strict=True)])
    assert torch.allclose(normalised(found), white[:, None, None].expand(3, 56, 56))
    Image.fromarray(pixels[:, :, 0]).save(tmp_path / "grey.png")
    assert torch.allclose(read_image(tmp_path / "grey.png", 56), found)
    tiny = tmp_path / "tiny.png"
    Image.fromarray(pixels[:3, 36:37]).save(tiny)
    assert read_image(tiny, 24).shape == (3, 24, 24)
    Image.new("RGB", (1, 30_000)).save(tmp_path / "thin.png")  # as a whole in this size it would take 8 GB
    assert read_image(tmp_path / "thin.png", 224).shape == (3, 224, 224)


def test_training_images_change_and_others_do_not(tmp_path: Path) -> None:
    """Each epoch in its own way, which can be had again; half of them are mirrored."""
    write_images(tmp_path, 10)
    plain, still = samples(tmp_path, "train"), samples(tmp_path, "heldout")
    data = image_folder.build_data(options(tmp_path, flip=True), "train")
    assert data is not None
    epochs = []
    for epoch in (0, 1, 0):
        data.set_epoch(epoch)  # type: ignore[attr-defined]
        epochs.append([data[index][0] for index in range(len(data))])
    assert all(map(torch.equal, epochs[0], epochs[2]))
    flipped = [
        [torch.equal(image, first.flip(-1)) for image, (first, _) in zip(images, plain, strict=True)]
        for images in epochs[:2]
    ]
    assert flipped[0] != flipped[1]
    assert all(0.2 < np.mean(each) < 0.8 for each in flipped)
    changed = samples(tmp_path, "train", augmentation="mild")
    assert not any(torch.equal(image, first) for (image, _), (first, _) in zip(changed, plain, strict=True))
    held = samples(tmp_path, "heldout", augmentation="mild", flip=True)
    assert all(torch.equal(one, other) for (one, _), (other, _) in zip(held, still, strict=True))


def test_the_fingerprint_is_of_the_files(tmp_path: Path) -> None:
    """Wherever they are; another file, or another change of them, is other data."""
    for name in ("a", "b"):
        write_images(tmp_path / name, 4)
    first = image_folder.fingerprint(options(tmp_path / "a"))
    assert image_folder.fingerprint(options(tmp_path / "b", workers=3)) == first
    assert image_folder.fingerprint(options(tmp_path / "b", flip=True)) != first
    (tmp_path / "b" / "red" / "1.png").unlink()
    assert image_folder.fingerprint(options(tmp_path / "b")) != first


def test_what_cannot_be_trained_on_gets_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to do."""
    write_images(tmp_path / "images", 2)
    for name, more, message in (
        (
            "nowhere",
            {},
            "nowhere cannot be read: No such file or directory; give a folder with one folder of",
        ),
        ("images", {"classes": 7}, r"has 3 folders of images, model.classes is 7: set model.classes = 3"),
        ("images/red", {}, "has 0 folders .*: give a folder with one folder per class"),
        ("images", {"augmentation": "wild"}, "expected none, mild, moderate, aggressive"),
    ):
        with pytest.raises(RecipeError, match=message):
            image_folder.build_data(options(tmp_path / name, **more), "train")
    for image in (tmp_path / "images" / "red").iterdir():
        image.write_bytes(b"GIF8 and no more")
    with pytest.raises(RecipeError, match=r"red/0.JPG is no image that can be read .*: mend or remove it"):
        samples(tmp_path / "images", "train", heldout=0.0)
    for name in CLASSES:
        for image in (tmp_path / "images" / name).iterdir():
            image.rename(image.with_suffix(".txt"))
    with pytest.raises(RecipeError, match="has no images in blue: their names end with"):
        image_folder.build_data(options(tmp_path / "images"), "train")
    with pytest.raises(RecipeError, match="expected resnet18, resnet34, resnet50, resnet101"):
        image_folder.build_model({"network": "vgg"})
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(RecipeError, match=r"needs Pillow, .*pip install 'torchdeck\[vision\]'"):
        image_folder.build_data(options(tmp_path), "train")


@pytest.mark.parametrize(
    ("depth", "parameters", "name"),
    [(18, 11_689_512, "layer4.1.bn2.weight"), (50, 25_557_032, "layer4.2.bn3.weight")],
)
def test_it_is_the_resnet_that_is_known(depth: int, parameters: int, name: str) -> None:
    """As many parameters as torchvision's models of these depths, by their names; an image becomes 1/32."""
    with torch.device("meta"):
        model = ResNet(depth=depth, classes=1000)
        assert sum(parameter.numel() for parameter in model.parameters()) == parameters
        assert {"conv1.weight", "bn1.bias", "layer2.0.downsample.0.weight", "fc.bias", name} <= {
            name for name, _ in model.named_parameters()
        }
        assert len(list(image_folder.blocks(model))) == sum(STAGES[depth])
        assert model(torch.empty(2, 3, 64, 64)).shape == (2, 1000)


def settings(images: Path, more: dict[str, Any]) -> Settings:
    """A training on the images; `more` are tables of strategies."""

    def of_run(folder: Path, strategy: str, ranks: int, steps: int) -> dict[str, Any]:
        return recipe_settings(
            folder,
            "image-folder",
            model={"width": 32, "classes": 3},
            data={"source": str(images), "size": 16, "heldout": 0.2},
            strategy=strategy,
            steps=steps,
            microbatch=16 // ranks,
            lr=1e-3,
            eval_every=12,
            eval_batches=2,
            **more,
        )

    return of_run


@pytest.mark.processes
@pytest.mark.parametrize("strategies", STRATEGIES)
def test_it_learns_under_strategies_and_resumes_exactly(strategies: tuple[str, ...], tmp_path: Path) -> None:
    """All images are told apart; stopped and resumed, each loss is the same in all digits."""
    training = settings(write_images(tmp_path / "images", 40), {})
    runs = [resumed_exactly(tmp_path, strategy, training, 12) for strategy in strategies]
    accuracy = re.findall(r"validation_accuracy (\S+)", runs[0].stdout[0])
    assert float(accuracy[-1]) == 1.0
    first, second = ([*run.losses().values()] for run in runs)
    assert second == pytest.approx(first, rel=1e-3)


@pytest.mark.soak
@pytest.mark.processes
@pytest.mark.skipif(deepspeed_python() is None, reason=ABSENT)
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_deepspeed_learns_the_same(stage: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With each stage of ZeRO as with DDP."""
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    python = deepspeed_python()
    assert python is not None
    training = settings(write_images(tmp_path / "images", 40), {"deepspeed": {"zero_stage": stage}})
    first, second = (
        [*resumed_exactly(tmp_path, strategy, training, 6, python=python).losses().values()]
        for strategy in ("ddp", "deepspeed")
    )
    assert second == pytest.approx(first, rel=1e-4)
