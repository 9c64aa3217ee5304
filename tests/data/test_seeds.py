"""Seeds of samples: pinned, all different, the same one by one as in ranges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.augmentation import MAX_ID, MAX_SEED, PIECE, RankAwareSeedGenerator, SampleSeedGenerator

ids = st.one_of(st.integers(0, 50), st.integers(0, MAX_ID - 20))
seeds = st.integers(0, MAX_SEED)


def test_seeds_never_change() -> None:
    """Literal values: they are the same on every machine and with every numpy version."""
    ranks = RankAwareSeedGenerator(42, 4)
    assert ranks.generate_seed(0, 0) == "34dd631ca2a22da13d471dd82828a5cac74573649e2c1cabd1e0749f87255bc6"
    assert ranks.generate_seed(1, 0) == "2af77e87daceecb9275f504b0154b61b9b4ad55658aaee2c7f4edf714be9f4bd"
    assert ranks.generate_seed(0, 1) == "6c7b2d0531f977c6c9141a6c73f3f695881be5f8109ad44c29d0a019c98d9add"
    assert (
        RankAwareSeedGenerator(42, 4, epoch=1).generate_seed(0, 0)
        == "cd041728f309c7fc9d06a8ef9e7d27c0676f975cde86db2f5f4cbb545b9eb9ea"
    )
    assert (
        SampleSeedGenerator(42).generate_seed(0)
        == "d1f8817d4d62880e307266b65cc8797ede1f04e7f084ed0365034a8e78cd1e59"
    )
    assert (
        SampleSeedGenerator(2**64 - 1, 5).generate_seed(2**63 - 1)
        == "2d8f3c1143425a55c0dd5cf08a85a1a06d5c3f6f7cdb9409bf52a4c22ed4f3d0"
    )


def test_the_published_generator_is_behind_them() -> None:
    """The test vector of Philox 4×64-10 (Random123's kat_vectors): key and counter zero."""
    # numpy makes the block of counter + 1 first, so the vector's block comes after a counter of all ones
    generator = np.random.Philox(key=np.zeros(2, np.uint64), counter=np.full(4, MAX_SEED, np.uint64))
    wanted = [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    assert generator.random_raw(4).tolist() == wanted


@settings(deadline=None)
@given(seeds, st.integers(1, 5), st.data(), ids, st.integers(0, 20))
def test_a_range_is_its_samples(
    base_seed: int, world_size: int, data: st.DataObject, first: int, count: int
) -> None:
    """A range, its samples one by one, and the same samples in another order have the same seeds."""
    rank = data.draw(st.integers(0, world_size - 1))
    generator = RankAwareSeedGenerator(base_seed, world_size)
    together = generator.generate_seeds(first, count, rank)
    assert together == [generator.generate_seed(first + index, rank) for index in range(count)]
    backwards = generator.stream(rank).words_of(range(first + count - 1, first - 1, -1))
    assert backwards[::-1].tolist() == generator.stream(rank).words(first, count).tolist()


def test_a_long_range_is_its_samples_too() -> None:
    """Around the pieces that a range is made in, nothing is left out or doubled."""
    words = SampleSeedGenerator(7).stream.words(3, 2 * PIECE + 5)
    for index in (0, PIECE - 1, PIECE, 2 * PIECE - 1, 2 * PIECE, 2 * PIECE + 4):
        assert (words[index] == SampleSeedGenerator(7).stream.words(3 + index, 1)[0]).all()


def test_no_two_are_the_same() -> None:
    """Base seeds, epochs, ranks, samples and both kinds: thousands of seeds, all different."""
    found: list[str] = []
    for base_seed in range(3):
        for epoch in range(3):
            by_rank = RankAwareSeedGenerator(base_seed, 4, epoch=epoch)
            for rank in range(4):
                found += by_rank.generate_seeds(0, 100, rank)
            by_sample = SampleSeedGenerator(base_seed, epoch)
            found += [by_sample.generate_seed(sample) for sample in range(100)]
    assert len(set(found)) == len(found) == 3 * 3 * 5 * 100


def test_bits_look_random() -> None:
    """Of 100,000 samples every one of the 256 bits is set in half, give or take five standard deviations."""
    words = RankAwareSeedGenerator(1, 2).stream(1).words(0, 100_000)
    bits = np.unpackbits(words.view(np.uint8), axis=1).mean(axis=0)
    assert (abs(bits - 0.5) < 5 * 0.5 / 100_000**0.5).all()


def test_bad_arguments_are_refused_with_the_rule() -> None:
    """Ranks that are not there, negative ids and counts, seeds and epochs out of range."""
    generator = RankAwareSeedGenerator(0, 4)
    for call, message in (
        (
            lambda: generator.generate_seed(0, 4),
            r"rank is 4: expected a whole number from 0 to 3 \(world_size",
        ),
        (lambda: generator.generate_seed(0, -1), "rank is -1"),
        (lambda: generator.generate_seed(-1, 0), "sample_id is -1: expected a whole number from 0"),
        (lambda: generator.generate_seeds(5, -1, 0), "count is -1"),
        (lambda: generator.generate_seeds(MAX_ID, 2, 0), "count is 2: expected a whole number from 0 to 1"),
        (lambda: generator.stream(0).words_of([3, -3]), "sample_id is -3"),
        (lambda: generator.generate_seed(1.5, 0), "sample_id is 1.5"),  # type: ignore[arg-type]  # on purpose
        (lambda: RankAwareSeedGenerator(0, 0), "world_size is 0: expected a whole number from 1"),
        (lambda: RankAwareSeedGenerator(-1, 4), "base_seed is -1: expected a whole number from 0"),
        (lambda: SampleSeedGenerator(2**64), "base_seed is"),
        (lambda: SampleSeedGenerator(0, -1), "epoch is -1"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
