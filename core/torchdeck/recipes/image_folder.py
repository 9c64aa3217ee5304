"""Recipe image-folder: a ResNet learns to classify images that lie in one folder per class.

Images are read when they are needed, by Pillow. They are scaled so that what is left of them after a cut at
the center is 7/8 of the shorter side, as 224 of 256 pixels are.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.recipes.classification import loss
from torchdeck.recipes.image_augmentation import augmented
from torchdeck.recipes.resnet import STAGES, ResNet

if TYPE_CHECKING:
    from torchdeck.data.augmentation import AugmentationParams
    from torchdeck.distributed.augmented_dataset import MapDataset

__all__ = ["ImageFolder", "blocks", "build_data", "build_model", "data_options", "fingerprint", "loss"]

CLASSES = 1000
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm")
TRAIN, VALIDATION = "train", ("val", "valid", "validation")
"""Folders of a source that is split already."""
KEPT = 7 / 8
"""Part of the shorter side that is left after the cut."""
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of red, green and blue in ImageNet, from 0 to 1, as weights of torchvision and
timm expect them.
"""
_SPLIT_SEED = 0


@dataclass(frozen=True)
class Images:
    """Files of one split, each with the number of its class."""

    root: Path
    names: Sequence[str]
    """Relative to `root`."""
    classes: Sequence[int]


class ImageFolder(Dataset[tuple[Tensor, int]]):
    """Pairs of an image, float32 of shape (3, size, size) from 0 to 1 or normalised, and its class."""

    def __init__(self, images: Images, size: int, *, normalise: bool) -> None:
        self._images, self._size, self._normalise = images, size, normalise

    def __len__(self) -> int:
        return len(self._images.names)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if not 0 <= index < len(self):
            raise IndexError(f"image {index} is out of range: there are {len(self)}")
        image = read_image(self._images.root / self._images.names[index], self._size)
        return normalised(image) if self._normalise else image, self._images.classes[index]


def read_image(path: Path, size: int) -> Tensor:
    """Return an image, float32 of shape (3, size, size) from 0 to 1.

    Raises:
        RecipeError: it cannot be read as an image; the message has its path.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as file:
            file.draft("RGB", (2 * size, 2 * size))  # a large JPEG is read at a fraction of its size
            image = ImageOps.exif_transpose(file).convert("RGB")
            kept = KEPT * min(image.size)
            left, top = ((side - kept) / 2 for side in image.size)
            # the cut first: a thin image that was enlarged as a whole would take all memory
            image = image.resize((size, size), Image.Resampling.BICUBIC, (left, top, left + kept, top + kept))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise RecipeError(
            f"data.source: {path} is no image that can be read ({error}): mend or remove it"
        ) from error
    pixels = np.asarray(image, dtype=np.float32) / 255
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


def normalised(image: Tensor) -> Tensor:
    """Return an image of shape (3, height, width) from 0 to 1 with ImageNet's mean 0 and deviation 1."""
    mean, deviation = (torch.tensor(values)[:, None, None] for values in (MEAN, DEVIATION))
    return (image - mean) / deviation


def build_model(options: dict[str, Any]) -> ResNet:
    """Build the model of a [model] table: network, classes, width.

    Raises:
        RecipeError: there is no such network.
    """
    chosen: dict[str, Any] = {"network": "resnet18", "classes": CLASSES, "width": 64} | options
    network = chosen.pop("network")
    depths = {f"resnet{depth}": depth for depth in STAGES}
    if network not in depths:
        raise RecipeError(f"model.network is {network!r}: expected {', '.join(depths)}")
    return ResNet(depth=depths[network], **chosen)


def data_options(model: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Return the [data] table with the model's number of classes."""
    return {"classes": model.get("classes", CLASSES), **data}


def build_data(options: dict[str, Any], split: str) -> MapDataset | None:
    """Build pairs of an image, float32 of shape (3, size, size), and its class; None if none is held out.

    Args:
        options: source, size, heldout (if the source is not split already), classes from the model, and for
            "train" flip and what `augmented` reads.
        split: "train" or "heldout", which is never changed.

    Raises:
        RecipeError: Pillow is missing, the source has no images or another number of classes, or an option
            is wrong.
    """
    _need_pillow()
    images = _images(options, split)
    if images is None:
        return None
    if split != "train":
        return ImageFolder(images, options.get("size", 224), normalise=True)
    changed = Changed(flip=options.get("flip", True))
    return augmented(ImageFolder(images, options.get("size", 224), normalise=False), options, changed)


def fingerprint(options: dict[str, Any]) -> str:
    """Return the fingerprint of the names and sizes of the files, their split, and how they are changed."""
    said = {name: value for name, value in sorted(options.items()) if name not in ("workers", "source")}
    digest = hashlib.sha256(repr(said).encode())
    for split in ("train", "heldout"):
        images = _images(options, split)
        for name in images.names if images is not None else ():
            size = (images.root / name).stat().st_size if images is not None else 0
            digest.update(f"{split} {name!r} {size}\n".encode())
    return f"images-{digest.hexdigest()}"


@dataclass(frozen=True)
class Changed:
    """Changes a training image as `augment_image` does, and normalises it."""

    flip: bool
    """Whether an image is mirrored if the last bit of its seed is 1."""

    def __call__(self, image: Tensor, params: AugmentationParams, seed: str) -> Tensor:
        from torchdeck.distributed.augmented_dataset import augment_image

        mirrored = self.flip and int(seed[-1], 16) % 2 == 1
        return normalised(augment_image(image.flip(-1) if mirrored else image, params, seed))


def blocks(model: nn.Module) -> Iterable[nn.Module]:
    """Return the blocks of the network."""
    assert isinstance(model, ResNet)  # noqa: S101 - the recipe's own model; narrows the type
    return model.blocks


def _need_pillow() -> None:
    try:
        import PIL.Image  # noqa: F401 - whether it is there
    except ImportError as error:
        raise RecipeError(
            f"recipe image-folder needs Pillow, which reads images ({error}): "
            "pip install 'torchdeck[vision]' on every node"
        ) from error


def _images(options: dict[str, Any], split: str) -> Images | None:
    """Return the files of a split, in an order that is the same everywhere; None if there are none."""
    source = Path(options.get("source", "images"))
    if _is_split(source / TRAIN):
        validation = next((source / name for name in VALIDATION if (source / name).is_dir()), None)
        source = source / TRAIN
        if validation is not None:
            classes = _classes(source, options)
            return _listed(source, classes) if split == "train" else _listed(validation, classes)
    found = _listed(source, _classes(source, options))
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(found.names))
    cut = len(order) - int(len(order) * options.get("heldout", 0.1))
    chosen = sorted(order[:cut] if split == "train" else order[cut:])
    if not chosen:
        return None
    return Images(source, [found.names[i] for i in chosen], [found.classes[i] for i in chosen])


def _is_split(folder: Path) -> bool:
    """Return whether `folder` has a folder for each class, and is not one of a class itself."""
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_dir() for entry in entries)
    except OSError as error:
        return not isinstance(error, (FileNotFoundError, NotADirectoryError))  # `_classes` says why


def _classes(folder: Path, options: dict[str, Any]) -> list[str]:
    """Return the names of the classes, which are those of the folders, by their order.

    Raises:
        RecipeError: the folder cannot be read, or has another number of classes than the model.
    """
    try:
        with os.scandir(folder) as entries:
            found = sorted(entry.name for entry in entries if entry.is_dir() and entry.name[0] != ".")
    except OSError as error:
        raise RecipeError(
            f"data.source {folder} cannot be read: {error.strerror}; give a folder with one folder of images "
            "per class"
        ) from error
    expected = options.get("classes", CLASSES)
    if len(found) != expected:
        raise RecipeError(
            f"data.source {folder} has {len(found)} folders of images, model.classes is {expected}: "
            + (
                f"set model.classes = {len(found)}"
                if len(found) > 1
                else "give a folder with one folder per class"
            )
        )
    return found


def _listed(folder: Path, classes: Sequence[str]) -> Images:
    """Return all images below the folders of the classes.

    Raises:
        RecipeError: a folder cannot be read, or a class has none.
    """
    names: list[str] = []
    numbers: list[int] = []
    for number, name in enumerate(classes):
        before = len(names)
        for below, folders, files in os.walk(folder / name, onerror=_refuse):
            folders.sort()
            for file in sorted(files):
                if file.lower().endswith(SUFFIXES) and not file.startswith("."):
                    names.append(os.path.relpath(os.path.join(below, file), folder))  # noqa: PTH118 - a million files
                    numbers.append(number)
        if len(names) == before:
            raise RecipeError(
                f"data.source {folder} has no images in {name}: their names end with {', '.join(SUFFIXES)}"
            )
    return Images(folder, names, numbers)


def _refuse(error: OSError) -> NoReturn:
    raise RecipeError(f"data.source: {error.filename} cannot be read: {error.strerror}") from error
