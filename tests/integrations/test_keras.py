"""Augmentation in TensorFlow, the real one: packaging/tensorflow-check.sh runs these tests with it."""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.values.images import turned
from torchdeck.data.augmentation import Augmentation, AugmentationParams
from torchdeck.data.augmentation_config import AugmentationConfig, get_preset

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip(
        "TensorFlow is not installed here; packaging/tensorflow-check.sh runs these tests with it",
        allow_module_level=True,
    )

tf = importlib.import_module("tensorflow")
keras = importlib.import_module("torchdeck.integrations.keras")
AugmentationLayer, augmentation_map = keras.AugmentationLayer, keras.augmentation_map

CONFIG = get_preset("aggressive")
IMAGES = np.random.RandomState(0).rand(6, 8, 10, 3).astype(np.float32)
IDS = np.array([5, 3, 11, 0, 7, 2])
QUIET = AugmentationParams(0.0, 1.0, 0.0, 1.0, 1.0)


def augmented(image: Any, params: AugmentationParams, seed: int = 0) -> Any:
    """One image, shape (height, width, channels)."""
    images, seeds = tf.constant(image[None]), tf.constant([[seed, 1]], tf.int32)
    return keras.augment_images(images, tf.constant([params]), seeds)[0].numpy()


def test_turning_and_scaling_are_those_of_the_reference() -> None:
    """Rotation and scale give what the pixel by pixel computation gives, on a image that is no square."""
    for degrees, scale in ((90.0, 1.0), (30.0, 1.0), (-20.0, 1.3), (0.0, 0.7)):
        found = augmented(IMAGES[0], QUIET._replace(rotation=degrees, scale=scale))
        for channel in range(3):
            wanted = turned(IMAGES[0, :, :, channel].astype(np.float64), degrees, scale)
            np.testing.assert_allclose(found[:, :, channel], wanted, atol=1e-4)


def test_values_change_as_said() -> None:
    """Contrast stretches about the mean, then brightness multiplies; neutral parameters do nothing."""
    np.testing.assert_allclose(augmented(IMAGES[0], QUIET), IMAGES[0], atol=1e-6)
    mean = IMAGES[0].mean()
    found = augmented(IMAGES[0], QUIET._replace(contrast=1.5, brightness=0.5))
    np.testing.assert_allclose(found, ((IMAGES[0] - mean) * 1.5 + mean) * 0.5, atol=1e-5)


def test_noise_is_that_of_the_seed() -> None:
    """Noise has the asked standard deviation, is the same for a seed and another for another."""
    flat = np.zeros((64, 64, 3), dtype=np.float32)
    params = QUIET._replace(noise=0.25)
    first, again, other = (augmented(flat, params, seed) for seed in (1, 1, 2))
    assert abs(float(first.std()) - 0.25) < 0.01
    assert (first == again).all()
    assert not (first == other).any()


def test_the_layer_augments_by_the_parameters_of_torchdeck() -> None:
    """In training each image is treated by its sample's parameters; otherwise it passes through."""
    layer = AugmentationLayer(CONFIG, base_seed=3)
    found = layer((IMAGES, IDS), training=True).numpy()
    chunk = Augmentation(CONFIG, 3, mode="sample").many(IDS)
    for row in range(len(IDS)):
        quiet = augmented(IMAGES[row], chunk[row]._replace(noise=0.0))
        assert abs(float((found[row] - quiet).std()) - chunk[row].noise) < 0.02
    assert (layer((IMAGES, IDS), training=False).numpy() == IMAGES).all()


def test_the_layer_in_a_graph_follows_the_epoch() -> None:
    """A traced function gives what eager execution gives, and other images in another epoch."""
    layer = AugmentationLayer(CONFIG, base_seed=3)
    graph = tf.function(lambda images, ids: layer((images, ids), training=True))
    first = graph(IMAGES, IDS).numpy()
    np.testing.assert_allclose(first, layer((IMAGES, IDS), training=True).numpy(), atol=1e-5)
    layer.set_epoch(1)
    assert not np.allclose(graph(IMAGES, IDS).numpy(), first, atol=1e-2)
    layer.set_epoch(0)
    assert (graph(IMAGES, IDS).numpy() == first).all()


def test_ranks_differ_only_where_they_should() -> None:
    """In mode "rank" two ranks see different images, in mode "sample" the same at any world size."""

    def images(mode: str, rank: int, world_size: int) -> Any:
        layer = AugmentationLayer(CONFIG, 1, mode=mode, rank=rank, world_size=world_size)
        return layer((IMAGES, IDS), training=True).numpy()

    assert not np.allclose(images("rank", 0, 2), images("rank", 1, 2), atol=1e-2)
    assert (images("sample", 0, 2) == images("sample", 2, 3)).all()


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras, while it saves
def test_a_model_with_the_layer_trains_and_is_saved(tmp_path: Path) -> None:
    """Keras fits a model that has the layer, and a saved model loads with the layer as it was."""
    images, ids = tf.keras.Input((8, 10, 3)), tf.keras.Input((), dtype="int64")
    layer = AugmentationLayer(get_preset("mild"), base_seed=9)
    output = tf.keras.layers.Dense(1)(tf.keras.layers.Flatten()(layer((images, ids))))
    model = tf.keras.Model([images, ids], output)
    model.compile("sgd", "mse")
    history = model.fit([IMAGES, IDS], np.ones((6, 1)), epochs=2, batch_size=3, verbose=0)
    assert all(np.isfinite(history.history["loss"]))
    model.save(tmp_path / "model.keras")
    loaded = tf.keras.models.load_model(tmp_path / "model.keras")
    (restored,) = [found for found in loaded.layers if isinstance(found, AugmentationLayer)]
    assert restored.get_config() == layer.get_config()
    found = restored((IMAGES, IDS), training=True).numpy()
    assert (found == layer((IMAGES, IDS), training=True).numpy()).all()


def test_the_map_augments_a_data_set() -> None:
    """Enumerated samples come out as the layer makes them, labels untouched, in any batch size."""
    data = tf.data.Dataset.from_tensor_slices((IMAGES, np.arange(6)))
    mapped = list(data.enumerate().map(augmentation_map(CONFIG, 3)).as_numpy_iterator())
    layer = AugmentationLayer(CONFIG, base_seed=3)
    wanted = layer((IMAGES, np.arange(6)), training=True).numpy()
    assert [int(label) for _, label in mapped] == list(range(6))
    np.testing.assert_allclose(np.stack([image for image, _ in mapped]), wanted, atol=1e-5)
    alone = tf.data.Dataset.from_tensor_slices(IMAGES).enumerate().map(augmentation_map(CONFIG, 3))
    np.testing.assert_allclose(np.stack(list(alone.as_numpy_iterator())), wanted, atol=1e-5)


def test_what_is_no_image_is_refused() -> None:
    """Whole numbers, and a batch without channels, are refused with what would be right."""
    params, seeds = tf.ones((1, 5)), tf.zeros((1, 2), tf.int32)
    for wrong in (tf.zeros((1, 4, 4, 3), tf.uint8), tf.zeros((1, 4, 4))):
        with pytest.raises(
            ValueError, match=r"expected floating point of shape \(n, height, width, channels"
        ):
            keras.augment_images(wrong, params, seeds)
    with pytest.raises(ValueError, match="rank is 2: expected a whole number from 0 to 1"):
        augmentation_map(AugmentationConfig(), rank=2, world_size=2)
