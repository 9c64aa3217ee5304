"""A torch data set whose samples are augmented by parameters derived from seed, epoch and sample."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.nn.functional as functional
from torch.utils.data import Dataset

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.data.augmentation import Augmentation, AugmentationParams, Mode
from torchdeck.data.augmentation_config import AugmentationConfig


class MapDataset(Protocol):
    """A map-style data set of known size."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


Augment = Callable[[Any, AugmentationParams, str], Any]
"""(first item of the sample, its parameters, its seed) → the augmented item."""


@arguments()
def augment_image(image: torch.Tensor, params: AugmentationParams, seed: str) -> torch.Tensor:
    """Rotate and scale an image, then change contrast, brightness and noise, in this order.

    Args:
        image: floating point, shape (channels, height, width), any value range. Pixels outside it are zero.
        params: rotation in degrees, counter-clockwise; scale above 1 enlarges; noise in units of the
            values.
        seed: 64 hexadecimal digits; the last 16 determine the noise, and no parameter depends on them.

    Raises:
        ValueError: the tensor has another shape or type.
    """
    if image.ndim != 3 or not image.is_floating_point():
        raise ArgumentError(
            f"a picture of shape {tuple(image.shape)} and {image.dtype} cannot be augmented",
            fix="expected floating point of shape (channels, height, width)",
        )
    if params.rotation != 0.0 or params.scale != 1.0:
        image = _turned(image, params.rotation, params.scale)
    if params.contrast != 1.0:
        mean = image.mean()
        image = (image - mean) * params.contrast + mean
    if params.brightness != 1.0:
        image = image * params.brightness
    if params.noise > 0.0:
        generator = torch.Generator().manual_seed(int(seed[48:], 16))
        noise = torch.randn(image.shape, generator=generator, dtype=torch.float32)
        image = image + noise.to(image) * params.noise
    return image


class AugmentedDataset(Dataset[Any]):
    """A data set that augments every sample, deterministically within an epoch.

    In mode "sample" a sample looks the same on every rank and at any world size, so a run that resumes at
    another world size sees the same data. In mode "rank" each rank augments in its own way.

    Args:
        data: samples: a tensor, or a tuple or list whose first item is augmented.
        config: ranges and depth.
        base_seed: 0 to 2⁶⁴ - 1.
        mode: "sample" or "rank", see above.
        rank: this rank.
        world_size: number of ranks.
        augment: function that applies the parameters. Default: for images.

    Raises:
        ValueError: seed, mode or rank is out of range.
    """

    @arguments()
    def __init__(
        self,
        data: MapDataset,
        config: AugmentationConfig,
        base_seed: int = 0,
        *,
        mode: Mode = "sample",
        rank: int = 0,
        world_size: int = 1,
        augment: Augment = augment_image,
    ) -> None:
        self._data = data
        names = getattr(data, "sample_names", None)
        if names is not None:
            self.sample_names = names
        self._augment = augment
        self._config, self._base_seed = config, base_seed
        self._mode, self._rank, self._world_size = mode, rank, world_size
        self.set_epoch(0)

    @arguments()
    def set_epoch(self, epoch: int) -> None:
        """Set the epoch. Call it before the loader of that epoch starts its workers, which copy this
        object.

        Raises:
            ValueError: the epoch is negative.
        """
        self._source = Augmentation(
            self._config,
            self._base_seed,
            mode=self._mode,
            rank=self._rank,
            world_size=self._world_size,
            epoch=epoch,
        )

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int) -> Any:
        sample = self._data[index]
        chunk = self._source.range(index, 1)
        params, seed = chunk[0], chunk.seeds[0]
        if isinstance(sample, (tuple, list)):
            items = [self._augment(sample[0], params, seed), *sample[1:]]
            return type(sample)(*items) if hasattr(sample, "_fields") else type(sample)(items)
        return self._augment(sample, params, seed)


def _turned(image: torch.Tensor, degrees: float, scale: float) -> torch.Tensor:
    """Return the source of each pixel of the result: rotated and scaled back about the center, in pixels."""
    height, width = image.shape[1:]
    cosine, sine = (f(math.radians(degrees)) / scale for f in (math.cos, math.sin))
    theta = torch.tensor(
        [[[cosine, -sine * height / width, 0.0], [sine * width / height, cosine, 0.0]]],
        dtype=image.dtype,
        device=image.device,
    )
    grid = functional.affine_grid(theta, [1, *image.shape], align_corners=False)
    return functional.grid_sample(image[None], grid, align_corners=False)[0]
