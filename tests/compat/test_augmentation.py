"""Examples about augmentation: the same calls, and values computed from the definition of the seed."""

# ruff: noqa: S311 - numbers for augmentation are no secrets

from __future__ import annotations

import multiprocessing as mp
import random
import re

import numpy as np
import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from support.documents.augmented_process import count_samples
from support.documents.defined_augmentation import NAMES, defined_params, defined_seed, printed
from support.ranks.measured_ranks import measure
from torchdeck.compat.augmentation import (
    AugmentationConfig,
    DistributedRangeSplitter,
    RankAwareSeedGenerator,
    RankRange,
    gen_distributed_augmentation_params,
    get_preset,
    stream_distributed_augmentation_chain,
    stream_distributed_augmentation_range,
)
from torchdeck.data import validate_distributed_setup


def test_the_definition_has_a_known_value() -> None:
    """Computed by sha256sum in a shell: of "0:1:7", and after ten more rounds."""
    known = "b637fe8c3c8fc11cde01213e3623f37b8419ee150e766b097469d32df37a36dc"
    assert defined_seed(7, 1, depth=0) == known
    known = "4e9b99bfaf10225557d7cf897291d58354b05a6cbc592d30818d01ee9cb7b1d5"
    assert RankAwareSeedGenerator(0, 2).generate_seed(7, 1) == known


@pytest.mark.block("augmentation", 1)
def test_one_sample() -> None:
    config = get_preset("moderate")
    params = gen_distributed_augmentation_params(sample_id=42, rank=0, config=config, world_size=4)
    assert params == defined_params(42, 0, config)
    assert re.fullmatch(r"-?\d+\.\d\d", f"{params['rotation']:.2f}")
    assert re.fullmatch(r"\d\.\d{3}", f"{params['brightness']:.3f}")


@pytest.mark.block("augmentation", 2)
def test_a_ranks_range_and_stream() -> None:
    """The stream has the samples of the rank's range, in order."""
    config = get_preset("moderate")
    total_samples, world_size, rank = 1000, 4, 0
    start_id, end_id = DistributedRangeSplitter(total_samples, world_size).get_rank_range(rank)
    assert (start_id, end_id) == (0, 250)
    stream = stream_distributed_augmentation_chain(
        num_samples=total_samples, rank=rank, world_size=world_size, config=config
    )
    found = list(stream)
    assert len(found) == end_id - start_id
    assert found[:5] == [defined_params(sample, rank, config) for sample in range(5)]


@pytest.mark.block("augmentation", 3)
def test_arguments_of_one_sample() -> None:
    """By position and by name; defaults are a configuration of its own, base seed 0 and one rank."""
    config = get_preset("mild")
    by_position = gen_distributed_augmentation_params(5, 1, config, 9, 2)
    by_name = gen_distributed_augmentation_params(
        sample_id=5, rank=1, config=config, base_seed=9, world_size=2
    )
    assert by_position == by_name == defined_params(5, 1, config, base_seed=9)
    usual = AugmentationConfig()
    assert gen_distributed_augmentation_params(5, 0, None) == defined_params(5, 0, usual)
    assert (usual.rotation_range, usual.augmentation_depth) == ((-30.0, 30.0), 10)


@pytest.mark.block("augmentation", 4, 5)
def test_ranks_differ() -> None:
    """One line per rank, each with other numbers, inside the preset's ranges."""
    config = get_preset("mild")
    lines = []
    for rank in range(3):
        params = gen_distributed_augmentation_params(sample_id=100, rank=rank, config=config, world_size=3)
        assert -15 <= params["rotation"] <= 15
        assert 0.9 <= params["brightness"] <= 1.1
        lines.append(f"Rank {rank}: rotation={params['rotation']:.2f}, brightness={params['brightness']:.3f}")
    assert len({line.partition(": ")[2] for line in lines}) == 3
    pattern = r"Rank \d: rotation=-?\d+\.\d\d, brightness=\d\.\d{3}"
    assert all(re.fullmatch(pattern, line) for line in lines)


@pytest.mark.block("augmentation", 6)
def test_the_same_again() -> None:
    config = get_preset("moderate")
    params1 = gen_distributed_augmentation_params(42, rank=1, config=config, world_size=4)
    random.random()
    params2 = gen_distributed_augmentation_params(42, rank=1, config=config, world_size=4)
    assert params1 == params2


def test_the_programs_own_random_numbers_are_left_alone() -> None:
    random.seed(3)
    expected = [random.random() for _ in range(2)]
    random.seed(3)
    first = random.random()
    gen_distributed_augmentation_params(42, 0)
    assert [first, random.random()] == expected


@pytest.mark.block("augmentation", 7)
def test_methods_of_the_splitter() -> None:
    splitter = DistributedRangeSplitter(7, 3)
    assert splitter.get_rank_range(0) == (0, 3)
    assert splitter.get_all_ranges() == [(0, 3), (3, 5), (5, 7)]
    assert splitter.validate_ranges() is True
    assert splitter.get_all_rank_ranges()[1] == RankRange(start_id=3, end_id=5, rank=1, total_samples=7)
    assert [splitter.get_rank_for_sample(sample) for sample in range(7)] == [0, 0, 0, 1, 1, 2, 2]
    one = splitter.get_all_rank_ranges()[2]
    assert (one.start_id, one.end_id, one.rank, one.total_samples) == (5, 7, 2, 7)


@pytest.mark.block("augmentation", 8, 9)
def test_even_ranges() -> None:
    assert printed(DistributedRangeSplitter(total_samples=100, world_size=4)) == [
        "Rank 0: samples 0-24 (25 samples)",
        "Rank 1: samples 25-49 (25 samples)",
        "Rank 2: samples 50-74 (25 samples)",
        "Rank 3: samples 75-99 (25 samples)",
    ]


@pytest.mark.block("augmentation", 10, 11)
def test_uneven_ranges() -> None:
    """The first ranks have one more."""
    assert printed(DistributedRangeSplitter(total_samples=23, world_size=4)) == [
        "Rank 0: samples 0-5 (6 samples)",
        "Rank 1: samples 6-11 (6 samples)",
        "Rank 2: samples 12-17 (6 samples)",
        "Rank 3: samples 18-22 (5 samples)",
    ]


@pytest.mark.block("augmentation", 12)
def test_ranges_are_checked_and_listed() -> None:
    splitter = DistributedRangeSplitter(total_samples=23, world_size=4)
    assert splitter.validate_ranges()
    assert f"{splitter.get_all_ranges()}" == "[(0, 6), (6, 12), (12, 18), (18, 23)]"


@pytest.mark.block("augmentation", 13)
def test_arguments_of_the_stream() -> None:
    """By position: samples, rank, world size, configuration, chunk size, base seed."""
    config = get_preset("aggressive")
    found = list(stream_distributed_augmentation_chain(10, 1, 2, config, 3, 77))
    assert found == [defined_params(sample, 1, config, base_seed=77) for sample in range(5, 10)]
    usual = AugmentationConfig()
    found = list(stream_distributed_augmentation_chain(num_samples=3, rank=0, world_size=1))
    assert found == [defined_params(sample, 0, usual) for sample in range(3)]


def test_a_range_of_ones_own() -> None:
    config = get_preset("mild")
    found = list(stream_distributed_augmentation_range(100, 103, rank=1, world_size=4, config=config))
    assert found == [defined_params(sample, 1, config) for sample in range(100, 103)]
    assert list(stream_distributed_augmentation_range(5, 5, 0, 1)) == []


@pytest.mark.block("augmentation", 14)
@pytest.mark.processes
def test_several_processes() -> None:
    """Each has its share, and all samples are had."""
    config, world_size, total_samples = get_preset("moderate"), 4, 1002
    values = {f"{name}_range": getattr(config, f"{name}_range") for name in NAMES}
    values["augmentation_depth"] = config.augmentation_depth
    context = mp.get_context("spawn")
    results = context.Queue()
    processes = [
        context.Process(target=count_samples, args=(rank, world_size, total_samples, values, results))
        for rank in range(world_size)
    ]
    for process in processes:
        process.start()
    found = [results.get(timeout=60) for _ in range(world_size)]
    for process in processes:
        process.join(60)
    assert sum(result["processed"] for result in found) == total_samples
    by_rank = [result["processed"] for result in sorted(found, key=lambda result: result["rank"])]
    assert by_rank == [251, 251, 250, 250]


@pytest.mark.block("augmentation", 15)
def test_presets() -> None:
    """The same for all ranks; other presets draw other numbers from the same seed."""
    drawn = [
        gen_distributed_augmentation_params(
            3, rank, get_preset("mild" if rank == 0 else "aggressive"), world_size=2
        )
        for rank in range(2)
    ]
    assert drawn[0] == defined_params(3, 0, get_preset("mild"))
    assert drawn[1] == defined_params(3, 1, get_preset("aggressive"))
    with pytest.raises(ValueError, match="there is no augmentation preset 'wild'"):
        get_preset("wild")


@pytest.mark.block("augmentation", 16)
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"sample_id": -1, "rank": 0}, "sample_id is -1: expected a whole number from 0"),
        ({"sample_id": 1, "rank": -1}, "rank is -1: expected a whole number from 0 to 3 "),
        ({"sample_id": 1, "rank": 0, "world_size": 0}, "world_size is 0: expected a whole number from 1"),
        ({"sample_id": 1, "rank": 0, "base_seed": -1}, "base_seed is -1"),
    ],
)
def test_errors_of_arguments(arguments: dict[str, int], says: str) -> None:
    """ValueError, as the example catches it."""
    with pytest.raises(ValueError, match=re.escape(says)):
        gen_distributed_augmentation_params(config=None, **{"world_size": 4, **arguments})


def test_errors_of_configurations() -> None:
    for values, says in (
        ({"rotation_range": (5, -5)}, "rotation_range from 5 to -5 is empty"),
        ({"augmentation_depth": 0}, "augmentation_depth is 0"),
        ({"scale_range": "12"}, "scale_range is '12'"),
    ):
        with pytest.raises(ValueError, match=says):
            AugmentationConfig(**values)


@pytest.mark.block("augmentation", 17)
def test_a_million_samples_as_a_stream() -> None:
    """Nothing is made before it is asked for."""
    config = get_preset("moderate")
    stream = stream_distributed_augmentation_chain(
        num_samples=1000000, rank=3, world_size=4, config=config, chunk_size=1000
    )
    assert next(stream) == defined_params(750000, 3, config)
    assert next(stream) == defined_params(750001, 3, config)


@pytest.mark.block("augmentation", 18)
def test_a_check_of_the_setup() -> None:
    """The example's function; and the library's, which has its name."""

    def validate(total_samples: int, world_size: int) -> int:
        splitter = DistributedRangeSplitter(total_samples, world_size)
        if not splitter.validate_ranges():
            raise ValueError("invalid ranges")
        return sum(end - start for start, end in splitter.get_all_ranges())

    assert validate(total_samples=10000, world_size=8) == 10000
    assert validate_distributed_setup(total_samples=10000, world_size=8)


@given(st.integers(0, 500), st.integers(1, 40))
def test_ranges_have_every_sample_once(total_samples: int, world_size: int) -> None:
    """Zero samples, too."""
    splitter = DistributedRangeSplitter(total_samples, world_size)
    ranges = splitter.get_all_ranges()
    assert [sample for start, end in ranges for sample in range(start, end)] == list(range(total_samples))
    sizes = [end - start for start, end in ranges]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1
    assert splitter.validate_ranges()


def test_zero_samples() -> None:
    splitter = DistributedRangeSplitter(0, 3)
    assert splitter.get_all_rank_ranges() == [RankRange(0, 0, rank, 0) for rank in range(3)]
    assert list(stream_distributed_augmentation_chain(0, 2, 3)) == []
    with pytest.raises(ValueError, match="there is no sample 0"):
        splitter.get_rank_for_sample(0)
    with pytest.raises(ValueError, match="rank is 3"):
        splitter.get_rank_range(3)


@pytest.mark.block("augmentation", 19)
def test_a_rank_beyond_the_world_size() -> None:
    with pytest.raises(
        ValueError, match=r"rank is 4: expected a whole number from 0 to 3 \(world_size - 1\)"
    ):
        gen_distributed_augmentation_params(42, rank=4, world_size=4)
    assert gen_distributed_augmentation_params(42, rank=3, world_size=4)["rank"] == 3


@pytest.mark.block("augmentation", 20)
def test_base_seeds() -> None:
    config = get_preset("moderate")
    params1 = gen_distributed_augmentation_params(42, 0, config, base_seed=123)
    params2 = gen_distributed_augmentation_params(42, 0, config, base_seed=456)
    assert params1 != params2
    base_seed = 12345
    params1 = gen_distributed_augmentation_params(42, 0, config, base_seed=base_seed)
    params2 = gen_distributed_augmentation_params(42, 0, config, base_seed=base_seed)
    assert params1 == params2 == defined_params(42, 0, config, base_seed=12345)


@pytest.mark.block("augmentation", 21)
def test_more_ranks_than_samples() -> None:
    splitter = DistributedRangeSplitter(total_samples=2, world_size=5)
    start, end = splitter.get_rank_range(rank=4)
    assert start == end
    assert [end - start for start, end in splitter.get_all_ranges()] == [1, 1, 0, 0, 0]
    assert list(stream_distributed_augmentation_chain(num_samples=2, rank=4, world_size=5)) == []


@pytest.mark.block("augmentation", 22)
def test_chunk_sizes_change_nothing() -> None:
    config = get_preset("mild")
    found = [
        list(
            stream_distributed_augmentation_chain(
                num_samples=100, chunk_size=size, rank=0, world_size=2, config=config
            )
        )
        for size in (1, 10, 10000)
    ]
    assert found[0] == found[1] == found[2]
    with pytest.raises(ValueError, match="chunk_size is 0"):
        stream_distributed_augmentation_chain(num_samples=100, chunk_size=0, rank=0, world_size=2)


@pytest.mark.block("augmentation", 23)
def test_memory_while_a_stream_is_read() -> None:
    """Every thousandth sample; psutil is a dependency of Torchdeck."""
    stream = stream_distributed_augmentation_chain(num_samples=2500, rank=0, world_size=1)
    reports = []
    for i, params in enumerate(stream):
        if i % 1000 == 0:
            memory = psutil.virtual_memory()
            reports.append(f"Memory usage: {memory.percent:.1f}% ({memory.used / (1024**3):.1f}GB)")
        assert params["rank"] == 0
    assert len(reports) == 3


@pytest.mark.block("augmentation", 24)
@pytest.mark.processes
def test_torchs_loader() -> None:
    """Two ranks of torch's group, each with a data set that augments by its stream. torch's sampler divides
    those samples once more, as in the document.
    """
    config = get_preset("mild")
    (ranks,) = measure("support.documents.augmented_ranks:loaded", [{"world_size": 2}])
    order = torch.randperm(4, generator=torch.Generator().manual_seed(0)).tolist()
    for rank, rows in enumerate(ranks):
        factors = [
            gen_distributed_augmentation_params(4 * rank + number, rank, config, world_size=2)["brightness"]
            for number in order[rank::2]
        ]
        expected = [number * factor for number, factor in zip(order[rank::2], factors, strict=True)]
        assert rows == pytest.approx(expected)


@pytest.mark.block("augmentation", 25)
def test_ids_of_other_frameworks() -> None:
    """A Keras layer passes what `.numpy()` returns, and ranks of a list of devices."""
    config = get_preset("moderate")
    sample_ids = np.array([3, 8], dtype=np.int64)
    batch = [
        gen_distributed_augmentation_params(
            sample_id=sample_id, rank=["gpu0", "gpu1"].index("gpu1"), config=config, world_size=2
        )
        for sample_id in sample_ids
    ]
    assert batch == [defined_params(sample, 1, config) for sample in (3, 8)]


@pytest.mark.block("augmentation", 26)
def test_seeds_for_another_generator() -> None:
    """64 hexadecimal digits, which depend on base seed, sample, rank and depth, and not on the world size."""
    generator = RankAwareSeedGenerator(base_seed=42, world_size=8)
    seed = generator.generate_seed(sample_id=100, rank=3)
    assert seed == defined_seed(100, 3, base_seed=42)
    assert 0 <= random.Random(int(seed, 16)).random() < 1
    assert generator.generate_seed(100, 3, augmentation_depth=4) == defined_seed(100, 3, 42, depth=4) != seed
    assert RankAwareSeedGenerator(42, 4).generate_seed(100, 3) == seed
    assert RankAwareSeedGenerator().generate_seed(0, 0) == defined_seed(0, 0)


@given(st.integers(0, 2**70), st.integers(0, 50), st.integers(0, 2**70), st.integers(1, 12))
def test_seeds_are_as_defined(sample_id: int, rank: int, base_seed: int, depth: int) -> None:
    generator = RankAwareSeedGenerator(base_seed, rank + 1)
    assert generator.generate_seed(sample_id, rank, depth) == defined_seed(sample_id, rank, base_seed, depth)


@pytest.mark.block("augmentation", 27)
def test_another_world_size() -> None:
    """From 4 to 6 ranks; `torchdeck.data.redistribution_report` says what moves."""
    old, new = (DistributedRangeSplitter(1000, world_size) for world_size in (4, 6))
    assert old.get_rank_range(0) == (0, 250)
    assert printed(new) == [
        "Rank 0: samples 0-166 (167 samples)",
        "Rank 1: samples 167-333 (167 samples)",
        "Rank 2: samples 334-500 (167 samples)",
        "Rank 3: samples 501-667 (167 samples)",
        "Rank 4: samples 668-833 (166 samples)",
        "Rank 5: samples 834-999 (166 samples)",
    ]
