"""Augmentation parameters by the million against plain Python; torch's permutation without torch."""

import random
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import torch

from benchmarks.rows import Row
from torchdeck.data.augmentation import (
    Augmentation,
    RankAwareSeedGenerator,
    stream_distributed_augmentation_chain,
)
from torchdeck.data.augmentation_config import AUGMENTATIONS, PRESETS, AugmentationConfig
from torchdeck.data.sampler import torch_permutation

SAMPLES = 4_000_000
PLAIN = 50_000
"""Samples for plain Python, which would take minutes for the others."""
SINGLES = 5_000
MILLION = 1_000_000
ROUNDS = 5
"""Of each the fastest counts: it is the one that other work on the machine disturbed least."""


def run() -> list[Row]:
    """Rows for the goal of five million sets a second and core, and for constant memory."""
    return [*_streams(), *_singles(), *_memory(), *_permutations()]


def _best(work: Callable[[], object]) -> float:
    """Seconds."""
    took = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        work()
        took.append(time.perf_counter() - begun)
    return min(took)


def _streams() -> list[Row]:
    rows = []
    for name, config in PRESETS.items():
        plain = PLAIN / _best(partial(_plain_python, PLAIN, config)) / 1e6
        for chunk_size in (65_536, MILLION):
            seconds = _best(partial(_stream, SAMPLES, config, chunk_size))
            ours = SAMPLES / seconds / 1e6
            label = f"{name}, chunks of {chunk_size:,}"
            rows.append(Row(label, ours, "M sets/s", wanted=5.0, goal_is_absolute=True))
            rows.append(Row(label, ours, "M sets/s", plain, "random.Random a sample", ours / plain))
    return rows


def _stream(num_samples: int, config: AugmentationConfig, chunk_size: int) -> int:
    chunks = stream_distributed_augmentation_chain(num_samples, 0, 1, config, chunk_size, 42)
    return sum(len(chunk) for chunk in chunks)


def _plain_python(num_samples: int, config: AugmentationConfig) -> list[dict[str, float]]:
    """A generator seeded for each sample, five values drawn, the sample's parameters in a dict."""
    found = []
    for sample in range(num_samples):
        generator = random.Random(f"42:0:{sample}")  # noqa: S311 - the peer, and not for secrets
        found.append({name: generator.uniform(*config.range_of(name)) for name in AUGMENTATIONS})
    return found


def _singles() -> list[Row]:
    config = PRESETS["aggressive"]
    source, seeds = Augmentation(config, 42), RankAwareSeedGenerator(42, 1)
    plain = _best(lambda: _plain_python(SINGLES, config)) / SINGLES * 1e6
    peer = "random.Random a sample"

    def far() -> None:
        for sample in range(10**15, 10**15 + SINGLES):
            source.one(sample)

    def near() -> None:
        for sample in range(SINGLES):
            source.one(sample)

    scattered = list(range(0, 7 * SINGLES, 7))
    ours = {
        "one set": _best(near),
        "one set, sample 10^15": _best(far),
        "a set of scattered samples": _best(lambda: source.many(scattered)),
        "one seed": _best(lambda: [seeds.generate_seed(sample, 0) for sample in range(SINGLES)]),
    }
    return [
        Row(name, took / SINGLES * 1e6, "µs", plain, peer, plain / (took / SINGLES * 1e6))
        for name, took in ours.items()
    ]


def _memory() -> list[Row]:
    """Peak of traced memory of a stream, long against short."""

    def peak(num_samples: int) -> float:
        tracemalloc.start()
        _stream(num_samples, PRESETS["moderate"], 65_536)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most / 2**20

    short, long = peak(200_000), peak(20_000_000)
    name = "peak memory of 20 million sets"
    return [Row(name, long, "MiB", short, "of 200,000", long / short, wanted=1.05, lower_is_better=True)]


def _torchs(size: int) -> torch.Tensor:
    return torch.randperm(size, generator=torch.Generator().manual_seed(1))


def _permutations() -> list[Row]:
    rows = []
    for size in (MILLION, 10 * MILLION):
        ours = _best(partial(torch_permutation, size, 1))
        theirs = _best(partial(_torchs, size))
        name = f"torch's permutation of {size:,}"
        rows.append(Row(name, ours, "s", theirs, "torch.randperm", theirs / ours))
    return rows
