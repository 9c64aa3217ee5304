"""Augmentation by Torchdeck's parameters in TensorFlow: a Keras layer, and a function for tf.data's map.

The parameters are the framework-free ones of `torchdeck.data`, computed by numpy inside the graph
(`tf.numpy_function`). The layer therefore runs only where Python runs: not under XLA, and not in an exported
SavedModel.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from torchdeck.data.augmentation import Augmentation, Mode
from torchdeck.data.augmentation_config import AugmentationConfig


def _imported_tensorflow() -> Any:
    try:
        return importlib.import_module("tensorflow")
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise ImportError(
            "torchdeck.integrations.keras needs TensorFlow, which is not installed: "
            "pip install 'torchdeck[tensorflow]'"
        ) from None


tf = _imported_tensorflow()
Layer: Any = tf.keras.layers.Layer


def augment_images(images: Any, params: Any, seeds: Any) -> Any:
    """Rotate and scale every image, then change its contrast, brightness and noise, in this order.

    Args:
        images: floating point, shape (n, height, width, channels), any value range; pixels from outside the
            edges are zero.
        params: as in AugmentationParams, shape (n, 5).
        seeds: int32, shape (n, 2); seeds of the noise.

    Raises:
        ValueError: images are of another type or rank.
    """
    if not images.dtype.is_floating or images.shape.rank != 4:
        raise ValueError(
            f"images of shape {images.shape} and {images.dtype.name} cannot be augmented: expected "
            "floating point of shape (n, height, width, channels)"
        )
    params = tf.cast(params, tf.float32)
    values = _turned(tf.cast(images, tf.float32), params[:, 0], params[:, 3])
    brightness, noise, contrast = (params[:, column, None, None, None] for column in (1, 2, 4))
    mean = tf.reduce_mean(values, axis=(1, 2, 3), keepdims=True)
    values = ((values - mean) * contrast + mean) * brightness
    shape = tf.shape(values)[1:]
    drawn = tf.map_fn(
        lambda seed: tf.random.stateless_normal(shape, seed), seeds, fn_output_signature=tf.float32
    )
    values = values + drawn * noise
    return tf.cast(tf.ensure_shape(values, images.shape), images.dtype)


def augmentation_map(
    config: AugmentationConfig,
    base_seed: int = 0,
    *,
    mode: Mode = "sample",
    rank: int = 0,
    world_size: int = 1,
    epoch: int = 0,
) -> Callable[..., Any]:
    """Return a function for `dataset.enumerate().map(...)`: (sample id, item) → item with its image
    augmented.

    An item is an image of shape (height, width, channels), or a tuple that begins with one. With a data set
    that is shuffled or sharded, enumerate first: the number is the sample's id.

    Args:
        config: ranges and depth.
        base_seed: 0 to 2⁶⁴ - 1.
        mode: "sample": the same at any world size; "rank": ranks differ.
        rank: this rank.
        world_size: ranks.
        epoch: create a new function for each epoch.

    Raises:
        ValueError: seed, mode, rank or epoch is out of range.
    """
    source = Augmentation(config, base_seed, mode=mode, rank=rank, world_size=world_size, epoch=epoch)

    def mapped(sample_id: Any, item: Any) -> Any:
        image = item[0] if isinstance(item, tuple) else item
        params, seeds = _drawn(lambda: source, sample_id[None])
        augmented = augment_images(image[None], params, seeds)[0]
        return (augmented, *item[1:]) if isinstance(item, tuple) else augmented

    return mapped


@tf.keras.utils.register_keras_serializable(package="torchdeck")
class AugmentationLayer(Layer):  # type: ignore[misc]  # TensorFlow is untyped
    """Augments in training and passes through otherwise; called with (images, sample ids).

    Args:
        config: ranges and depth, or the result of `AugmentationConfig.to_json`.
        base_seed: 0 to 2⁶⁴ - 1.
        mode: "sample": the same at any world size; "rank": ranks differ.
        rank: this rank.
        world_size: ranks.
        **keras: arguments of every layer, such as name and dtype.

    Raises:
        ValueError: seed, mode or rank is out of range.
    """

    def __init__(
        self,
        config: AugmentationConfig | dict[str, Any],
        base_seed: int = 0,
        mode: Mode = "sample",
        rank: int = 0,
        world_size: int = 1,
        **keras: Any,
    ) -> None:
        super().__init__(**keras)
        self.supports_jit = False
        self._settings = (base_seed, mode, rank, world_size)
        self._config = config if isinstance(config, AugmentationConfig) else AugmentationConfig(**config)
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Use new augmentations from the next batch on, including in graphs already traced.

        Raises:
            ValueError: the epoch is negative.
        """
        base_seed, mode, rank, world_size = self._settings
        self._source = Augmentation(
            self._config, base_seed, mode=mode, rank=rank, world_size=world_size, epoch=epoch
        )

    def call(self, inputs: Any, training: bool | None = None) -> Any:  # noqa: FBT001 - Keras's signature
        images, sample_ids = inputs
        if not training:
            return images
        params, seeds = _drawn(lambda: self._source, sample_ids)
        return augment_images(images, params, seeds)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shape of the images."""
        return input_shape[0]

    def get_config(self) -> dict[str, Any]:
        base_seed, mode, rank, world_size = self._settings
        mine = {"base_seed": base_seed, "mode": mode, "rank": rank, "world_size": world_size}
        return {**super().get_config(), "config": self._config.to_json(), **mine}


def _drawn(source: Callable[[], Augmentation], sample_ids: Any) -> tuple[Any, Any]:
    """Return parameters (n, 5) and seeds (n, 2) of samples; the source is called when the graph runs."""

    def drawn(ids: Any) -> tuple[Any, Any]:
        chunk = source().many(ids)
        # no parameter uses the last 64 bits
        seeds = np.ascontiguousarray(chunk.words[:, 3]).astype("<u8").view("<i4").reshape(-1, 2)
        return np.stack(chunk.columns, axis=1).astype(np.float32), seeds.astype(np.int32)

    ids = tf.cast(tf.reshape(sample_ids, [-1]), tf.int64)
    params, seeds = tf.numpy_function(drawn, [ids], [tf.float32, tf.int32])
    return tf.ensure_shape(params, [None, 5]), tf.ensure_shape(seeds, [None, 2])


def _turned(images: Any, degrees: Any, scale: Any) -> Any:
    """Return the source of each pixel of the result: rotated and scaled back about the center."""
    size = tf.shape(images)[1:3]
    middle = (tf.cast(size, tf.float32) - 1.0) / 2.0
    radians = degrees * (np.pi / 180.0)
    cosine, sine = tf.cos(radians) / scale, tf.sin(radians) / scale
    x0 = middle[1] - cosine * middle[1] + sine * middle[0]
    y0 = middle[0] - sine * middle[1] - cosine * middle[0]
    none = tf.zeros_like(cosine)
    transforms = tf.stack([cosine, -sine, x0, sine, cosine, y0, none, none], axis=1)
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=images,
        transforms=transforms,
        output_shape=size,
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )
