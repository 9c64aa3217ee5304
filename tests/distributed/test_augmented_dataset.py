"""Augmented torch data sets: the image operations, and that seed, epoch and sample decide."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from support.values.images import turned
from torchdeck.data.augmentation import Augmentation, AugmentationParams
from torchdeck.data.augmentation_config import get_preset
from torchdeck.distributed import AugmentedDataset, augment_image

QUIET = AugmentationParams(0.0, 1.0, 0.0, 1.0, 1.0)
SEED = "00" * 32
CONFIG = get_preset("aggressive")


class Images:
    """Ten images of 3 × 8 × 10, each with its number."""

    def __init__(self) -> None:
        self.images = torch.rand(10, 3, 8, 10, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.images[index], index


@settings(deadline=None)
@given(st.floats(-180, 180), st.floats(0.5, 2), st.integers(2, 7), st.integers(2, 7))
def test_turning_and_scaling_are_those_of_the_reference(
    degrees: float, scale: float, height: int, width: int
) -> None:
    """Rotation and scale give what the pixel by pixel computation gives, on any shape."""
    image = torch.rand(2, height, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = augment_image(image, QUIET._replace(rotation=degrees, scale=scale), SEED)
    for channel in range(2):
        wanted = turned(image[channel].numpy(), degrees, scale)
        np.testing.assert_allclose(found[channel].numpy(), wanted, atol=1e-9)


def test_a_quarter_turn_is_counter_clockwise() -> None:
    """90 degrees turn a square as numpy's rot90 does, which is counter-clockwise."""
    image = torch.arange(16.0).reshape(1, 4, 4)
    found = augment_image(image, QUIET._replace(rotation=90.0), SEED)
    np.testing.assert_allclose(found[0].numpy(), np.rot90(image[0].numpy()), atol=1e-4)


def test_values_change_as_said() -> None:
    """Contrast stretches about the mean, then brightness multiplies; neutral parameters do nothing at all."""
    image = Images().images[0]
    assert augment_image(image, QUIET, SEED) is image
    found = augment_image(image, QUIET._replace(contrast=1.5, brightness=0.5), SEED)
    mean = image.mean()
    torch.testing.assert_close(found, ((image - mean) * 1.5 + mean) * 0.5)


def test_noise_is_that_of_the_seed() -> None:
    """Noise has the asked standard deviation, is the same for a seed and another for another."""
    params, flat = QUIET._replace(noise=0.25), torch.zeros(3, 64, 64)
    other = "00" * 31 + "01"
    first, again, another = (augment_image(flat, params, seed) for seed in (SEED, SEED, other))
    assert abs(float(first.std()) - 0.25) < 0.01
    assert torch.equal(first, again)
    assert not torch.equal(first, another)


@pytest.mark.processes
def test_samples_are_augmented_by_the_parameters_of_torchdeck() -> None:
    """Each item is what its sample's parameters and seed make of it, whoever loads it; labels stay."""
    data, source = Images(), Augmentation(CONFIG, 3, mode="sample", epoch=2)
    augmented = AugmentedDataset(data, CONFIG, 3)
    augmented.set_epoch(2)
    assert len(augmented) == 10
    loaded = list(DataLoader(augmented, batch_size=None, num_workers=2, multiprocessing_context="fork"))
    for index, (image, label) in enumerate(loaded):
        wanted = augment_image(data.images[index], source.one(index), source.range(index, 1).seeds[0])
        torch.testing.assert_close(image, wanted)
        assert label == index


def test_ranks_differ_only_where_they_should() -> None:
    """In mode "rank" two ranks see different images, in mode "sample" the same at any world size."""

    def image(**place: Any) -> torch.Tensor:
        found: torch.Tensor = AugmentedDataset(Images(), CONFIG, 1, **place)[4][0]
        return found

    assert not torch.equal(image(mode="rank", rank=0, world_size=2), image(mode="rank", rank=1, world_size=2))
    assert torch.equal(image(rank=0, world_size=2), image(rank=2, world_size=3))
    with pytest.raises(ValueError, match="rank is 2: expected a whole number from 0 to 1"):
        image(rank=2, world_size=2)


class Named(NamedTuple):
    """A sample with names."""

    image: torch.Tensor
    label: int


@pytest.mark.parametrize("kind", [Named, lambda *items: list(items), lambda image, _: image])
def test_samples_keep_their_kind(kind: Any) -> None:
    """Named tuples, lists and bare images come back as what they were; what is done can be replaced."""

    class Data:
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> Any:
            return kind(torch.ones(1, 2, 2), 5)

    def twice(image: torch.Tensor, params: AugmentationParams, seed: str) -> torch.Tensor:
        return image * 2

    double = AugmentedDataset(Data(), CONFIG, augment=twice)
    found, plain = double[0], Data()[0]
    assert type(found) is type(plain)
    image = found if isinstance(found, torch.Tensor) else found[0]
    assert torch.equal(image, torch.full((1, 2, 2), 2.0))


def test_what_is_no_image_is_refused() -> None:
    """Whole numbers, and an image without channels, are refused with what would be right."""
    for wrong in (torch.zeros(3, 4, 4, dtype=torch.uint8), torch.zeros(4, 4)):
        with pytest.raises(ValueError, match=r"expected floating point of shape \(channels, height, width\)"):
            augment_image(wrong, QUIET, SEED)
