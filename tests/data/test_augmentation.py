"""Augmentation parameters: pinned, within their ranges, the same one by one as in chunks."""

import dataclasses
import json
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.augmentation import (
    Augmentation,
    AugmentationParams,
    Mode,
    gen_distributed_augmentation_params,
    stream_distributed_augmentation_chain,
)
from torchdeck.data.augmentation_config import AUGMENTATIONS, NEUTRAL, PRESETS, AugmentationConfig, get_preset
from torchdeck.data.redistribution import DistributedRangeSplitter

presets = st.sampled_from(sorted(PRESETS))
modes = st.sampled_from(["rank", "sample"])


def test_parameters_never_change() -> None:
    """Literal values: they are the same on every machine and with every numpy version."""
    aggressive, mild = get_preset("aggressive"), get_preset("mild")
    assert gen_distributed_augmentation_params(0, 0, aggressive, 42, 4) == AugmentationParams(
        *(
            12.175842917058617,
            0.7065030997619033,
            0.023530535004101693,
            0.8436198417097329,
            1.1178605954628438,
        )
    )
    assert gen_distributed_augmentation_params(12345, 3, mild, 7, 4) == AugmentationParams(
        *(1.5499332221224904, 1.0, 0.0, 1.0471155416453257, 1.0)
    )
    found = gen_distributed_augmentation_params(12345, 3, mild, 7, 4, mode="sample", epoch=2)
    assert found == AugmentationParams(*(0.0, 0.9065835651010276, 0.00653909825719893, 1.0, 1.0))


@settings(deadline=None)
@given(presets, modes, st.integers(1, 400), st.integers(1, 6), st.integers(1, 50), st.integers(0, 2**64 - 1))
def test_a_stream_is_its_samples(
    preset: str, mode: Mode, size: int, world_size: int, chunk_size: int, base_seed: int
) -> None:
    """Each rank streams its range in chunks, each sample as it is had alone; together they are all."""
    config = get_preset(preset)
    seen: list[int] = []
    for rank in range(world_size):
        chunks = list(
            stream_distributed_augmentation_chain(
                size, rank, world_size, config, chunk_size, base_seed, mode=mode, epoch=1
            )
        )
        assert all(len(chunk) == chunk_size for chunk in chunks[:-1])
        ids = [int(sample) for chunk in chunks for sample in chunk.sample_ids]
        assert ids == list(range(*DistributedRangeSplitter(size, world_size).get_rank_range(rank)))
        for chunk in chunks:
            last = len(chunk) - 1
            alone = gen_distributed_augmentation_params(
                int(chunk.sample_ids[last]), rank, config, base_seed, world_size, mode=mode, epoch=1
            )
            assert chunk[last] == alone
        seen += ids
    assert seen == list(range(size))


@settings(deadline=None)
@given(presets, st.integers(0, 2**40), st.integers(1, 300))
def test_values_are_in_their_ranges(preset: str, base_seed: int, count: int) -> None:
    """Every value is in its range or neutral, and as many as the depth says are drawn."""
    config = get_preset(preset)
    chunk = Augmentation(config, base_seed).range(0, count)
    applied = np.zeros(count, dtype=np.int64)
    for name, column in zip(AUGMENTATIONS, chunk.columns, strict=True):
        low, high = config.range_of(name)
        drawn = column != NEUTRAL[name]
        assert ((column >= low) & (column <= high) | ~drawn).all()
        applied += drawn
    assert (applied <= config.augmentation_depth).all()
    # a drawn value can be the neutral one, once in 2³²
    assert (applied == config.augmentation_depth).mean() > 0.99


def test_values_and_choices_are_spread_evenly() -> None:
    """Of 200,000 samples means are in the middle, all choices as frequent, and no two values correlate."""
    config = dataclasses.replace(get_preset("aggressive"), noise_range=(0.1, 0.3))
    everything = np.stack(Augmentation(config, 5).range(0, 200_000).columns)
    lows, highs = np.array([config.range_of(name) for name in AUGMENTATIONS]).T
    unit = (everything.T - lows) / (highs - lows)
    assert (abs(unit.mean(axis=0) - 0.5) < 0.005).all()
    assert (abs(np.corrcoef(unit.T) - np.eye(5)) < 0.015).all()
    for depth, choices in ((1, 5), (2, 10), (4, 5)):
        some = Augmentation(dataclasses.replace(config, augmentation_depth=depth), 5).range(0, 200_000)
        drawn = [column != NEUTRAL[name] for name, column in zip(AUGMENTATIONS, some.columns, strict=True)]
        _, counts = np.unique(np.stack(drawn), axis=1, return_counts=True)
        assert len(counts) == choices
        assert (abs(counts / 200_000 * choices - 1) < 0.05).all()


def test_ranks_differ_in_one_mode_and_not_in_the_other() -> None:
    """Mode "rank": every rank sees a sample differently. Mode "sample": no rank and no world size matters."""
    config = get_preset("moderate")

    def looks(mode: Mode, places: list[tuple[int, int]]) -> set[AugmentationParams]:
        return {
            gen_distributed_augmentation_params(7, rank, config, 1, world_size, mode=mode, epoch=3)
            for rank, world_size in places
        }

    assert len(looks("rank", [(rank, 8) for rank in range(8)])) == 8
    assert len(looks("sample", [(0, 1), (0, 4), (3, 4), (5, 6)])) == 1
    assert len(looks("rank", [(1, 2), (1, 4), (1, 6)])) == 1


@pytest.mark.parametrize("mode", ["rank", "sample"])
def test_epochs_and_seeds_differ(mode: Mode) -> None:
    """Another epoch or base seed gives other parameters; the same gives the same."""
    config = get_preset("aggressive")
    found = [
        Augmentation(config, seed, mode=mode, rank=1, world_size=2, epoch=epoch).one(9)
        for seed in (0, 1)
        for epoch in (0, 1, 2)
    ]
    assert len(set(found)) == 6
    assert found[0] == Augmentation(config, 0, mode=mode, rank=1, world_size=2).one(9)


def test_any_order_of_samples() -> None:
    """Samples asked for in any order, as numpy array or list, are those of the range."""
    source = Augmentation(get_preset("mild"), 4)
    chunk, mixed = source.range(0, 20), source.many(np.array([5, 19, 0, 5]))
    assert [mixed[row] for row in range(4)] == [chunk[5], chunk[19], chunk[0], chunk[5]]
    assert mixed.seeds == [chunk.seeds[5], chunk.seeds[19], chunk.seeds[0], chunk.seeds[5]]
    assert len(source.many([])) == 0


def test_memory_is_that_of_a_chunk() -> None:
    """A hundred times as many samples take no more memory at their peak."""

    def peak(num_samples: int) -> int:
        tracemalloc.start()
        chunks = stream_distributed_augmentation_chain(num_samples, 0, 1, get_preset("mild"), 1000)
        count = sum(len(chunk) for chunk in chunks)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert count == num_samples
        return most

    peak(1000)
    assert peak(500_000) < 1.5 * peak(5_000)


def test_a_rank_without_samples_streams_nothing() -> None:
    """Three samples over five ranks: the last two have none, which is no error."""
    assert list(stream_distributed_augmentation_chain(3, 4, 5, get_preset("mild"))) == []


def test_presets_grow_stronger_and_are_found_by_name() -> None:
    """Each preset's ranges lie within the next one's; another name is refused with those there are."""
    mild, moderate, aggressive = (get_preset(name) for name in ("mild", "moderate", "aggressive"))
    for weaker, stronger in ((mild, moderate), (moderate, aggressive)):
        assert weaker.augmentation_depth < stronger.augmentation_depth
        for name in AUGMENTATIONS:
            (low, high), (lower, higher) = weaker.range_of(name), stronger.range_of(name)
            assert lower <= low <= NEUTRAL[name] <= high <= higher
    assert AugmentationConfig.get_preset("mild") is mild
    with pytest.raises(
        ValueError, match="no augmentation preset 'wild': there is mild, moderate, aggressive"
    ):
        get_preset("wild")


def test_a_config_goes_through_json() -> None:
    """What to_json gives makes the same config again, so ranks can compare it and runs can store it."""
    for config in PRESETS.values():
        assert AugmentationConfig(**json.loads(json.dumps(config.to_json()))) == config


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"rotation_range": (5.0, -5.0)},
            "rotation_range from 5.0 to -5.0 is empty: the first must not be above",
        ),
        ({"rotation_range": 5.0}, "rotation_range is 5.0: expected two numbers"),
        ({"noise_range": (0.0, float("nan"))}, "noise_range .* both finite"),
        ({"rotation_range": (-1e308, 1e308)}, "rotation_range from .* is too wide"),
        ({"noise_range": (0.0, "1")}, "noise_range .* both finite"),
        ({"noise_range": (-0.1, 0.1)}, "noise_range starts at -0.1: it must not be negative"),
        ({"scale_range": (0.0, 1.0)}, "scale_range starts at 0.0: it must be above 0"),
        ({"augmentation_depth": 0}, "augmentation_depth is 0: expected a whole number from 1 to 5"),
        ({"augmentation_depth": 6}, "augmentation_depth is 6"),
    ],
)
def test_wrong_configs_are_refused(fields: dict[str, Any], message: str) -> None:
    """Empty, infinite or meaningless ranges, and depths that are none, are refused with the rule."""
    with pytest.raises(ValueError, match=message):
        AugmentationConfig(**fields)


def test_bad_arguments_are_refused_with_the_rule() -> None:
    """Wrong ranks, negative ids, no samples, empty chunks, another mode: before anything is generated."""
    config = get_preset("mild")
    for call, message in (
        (lambda: gen_distributed_augmentation_params(0, 4, config, 0, 4), "rank is 4: expected .* 0 to 3"),
        (lambda: gen_distributed_augmentation_params(-1, 0, config, 0, 4), "sample_id is -1: expected"),
        (lambda: gen_distributed_augmentation_params(0, 0, config, -1, 4), "base_seed is -1"),
        (lambda: gen_distributed_augmentation_params(0, 0, config, 0, 0), "world_size is 0"),
        (lambda: stream_distributed_augmentation_chain(0, 0, 1, config), "total_samples is 0: expected"),
        (lambda: stream_distributed_augmentation_chain(9, 2, 2, config), "rank is 2"),
        (lambda: stream_distributed_augmentation_chain(9, 0, 2, config, 0), "chunk_size is 0"),
        (lambda: Augmentation(config, mode="both"), "mode is 'both': expected 'rank' or 'sample'"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=message):
            call()
