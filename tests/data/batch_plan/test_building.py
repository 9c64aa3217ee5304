"""From lengths to microbatches: nothing twice, nothing over the budget, the same bytes everywhere."""

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.batch_plan import BatchPlan, BatchPlanError, build_batch_plan, check_plan

LENGTHS = st.lists(st.integers(1, 64), min_size=1, max_size=200)


def _digest(plan: BatchPlan) -> str:
    digest = hashlib.sha256()
    for epoch in range(plan.epochs):
        columns = plan.epoch_columns(epoch)
        for array in (
            columns.sample_ids,
            columns.offsets,
            columns.max_len,
            columns.tokens,
            columns.bucket_id,
        ):
            digest.update(array.astype("<i8").tobytes())
    return digest.hexdigest()


@settings(deadline=None)
@given(
    lengths=LENGTHS,
    budget=st.integers(64, 400),
    epochs=st.integers(1, 3),
    buckets=st.one_of(st.integers(1, 40), st.sets(st.integers(1, 80), min_size=1).map(sorted)),
    pack=st.booleans(),
    pad_to=st.sampled_from(["longest", "bucket"]),
)
def test_every_sample_once_and_within_the_budget(
    lengths: list[int], budget: int, epochs: int, buckets: Any, pack: bool, pad_to: str
) -> None:
    """In every epoch each sample is in one microbatch, whose rows hold its samples within the budget."""
    plan = build_batch_plan(
        lengths,
        token_budget=budget,
        epochs=epochs,
        buckets=buckets,
        max_length=64,
        pack=pack,
        pad_to=pad_to,
    )
    assert check_plan(plan) == []
    for epoch in range(epochs):
        ids = []
        for index, microbatch in enumerate(plan.iter_epoch(epoch)):
            packs = microbatch.packs if pack else [[sample] for sample in microbatch.sample_ids]
            assert packs is not None
            assert all(sum(lengths[sample] for sample in row) <= microbatch.max_len for row in packs)
            assert microbatch.padded_tokens == len(packs) * microbatch.max_len <= budget
            assert microbatch.tokens == sum(lengths[sample] for sample in microbatch.sample_ids)
            assert microbatch.index == index
            ids += microbatch.sample_ids.tolist()
        assert sorted(ids) == list(range(len(lengths)))


def test_the_plan_is_the_same_everywhere() -> None:
    """Bytes and fingerprint of a small plan are those of every machine, Python and numpy."""
    lengths = [(index * 7919) % 97 + 1 for index in range(300)]
    plain = build_batch_plan(lengths, token_budget=512, epochs=2, seed=5, buckets=4)
    packed = build_batch_plan(lengths, token_budget=512, seed=2**64 - 1, pack=True, max_length=128)
    assert plain.meta.bounds == PLAIN_BOUNDS
    assert _digest(plain) == PLAIN_BYTES
    assert plain.fingerprint == PLAIN_FINGERPRINT
    assert _digest(packed) == PACKED_BYTES
    assert packed.fingerprint == PACKED_FINGERPRINT


def test_the_fingerprint_covers_what_a_plan_is_made_from() -> None:
    """Another length, seed, budget, data set or tokenizer is another plan; the same again is the same."""
    lengths = [3, 5, 8, 13, 21]

    def fingerprint(changed: Any = lengths, budget: int = 64, **more: Any) -> str:
        return build_batch_plan(changed, token_budget=budget, **more).fingerprint

    others = [
        fingerprint([3, 5, 8, 13, 22]),
        fingerprint(seed=1),
        fingerprint(budget=65),
        fingerprint(dataset_fingerprint="d"),
        fingerprint(tokenizer_fingerprint="t"),
        fingerprint(pad_to="bucket"),
    ]
    assert len({fingerprint(), *others}) == 1 + len(others)
    assert fingerprint(np.array(lengths, dtype=np.uint16)) == fingerprint()
    assert fingerprint(seed=np.uint8(0), epochs=np.int64(1)) == fingerprint()
    assert fingerprint(buckets=np.array([8, 21])) == fingerprint(buckets=[8, 21])


def test_epochs_have_orders_of_their_own() -> None:
    """Two epochs, or two seeds, put the samples together differently."""
    plan = build_batch_plan([7] * 100, token_budget=70, epochs=2)
    other = build_batch_plan([7] * 100, token_budget=70, seed=1)
    first, second = (plan.epoch_columns(epoch).sample_ids.tolist() for epoch in range(2))
    assert first != second
    assert first != other.epoch_columns(0).sample_ids.tolist()


def test_more_buckets_waste_less() -> None:
    """Chosen bounds have less padding than bounds of equal width, and the more of them the less."""
    lengths = np.clip(np.random.default_rng(3).lognormal(5, 1, 20000), 1, 4096).astype(int)

    def waste(buckets: int | list[int]) -> float:
        columns = build_batch_plan(
            lengths, token_budget=8192, max_length=4096, buckets=buckets, pad_to="bucket"
        ).epoch_columns(0)
        return 1 - float(columns.tokens.sum() / columns.padded_tokens.sum())

    eight, thirty_two = waste(8), waste(32)
    assert thirty_two < eight / 2
    assert eight < waste([512 * (number + 1) for number in range(8)])


def test_packing_leaves_little_room() -> None:
    """Packed rows of lognormal lengths are over 98 % full."""
    lengths = np.clip(np.random.default_rng(3).lognormal(5, 1, 20000), 1, 2048).astype(int)
    columns = build_batch_plan(lengths, token_budget=8192, max_length=2048, pack=True).epoch_columns(0)
    assert float(columns.tokens.sum() / columns.padded_tokens.sum()) > 0.98


def test_very_long_samples() -> None:
    """Lengths far above what is counted in a table are planned all the same."""
    plan = build_batch_plan([3, 2**31 - 1, 2**30, 1], token_budget=2**31 - 1, buckets=2)
    assert check_plan(plan) == []
    assert max(microbatch.max_len for microbatch in plan.iter_epoch(0)) == 2**31 - 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"token_budget": 0}, "token budget must be a whole number from 1"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"seed": 2**64}, "seed must be a whole number from 0"),
        ({"epochs": 0}, "epochs must be a whole number from 1"),
        ({"epochs": 2**31}, "epochs must be a whole number from 1 to 65536"),
        ({"dataset_fingerprint": 5}, "dataset_fingerprint must be a text, not 5"),
        ({"buckets": "ab"}, "number of buckets must be a whole number"),
        ({"buckets": 0}, "number of buckets must be a whole number from 1"),
        ({"buckets": [8, 4]}, "upper bounds of buckets must ascend"),
        ({"buckets": []}, "there must be 1 to 1024 buckets"),
        ({"max_length": 101}, "would not fit the token budget 100"),
        ({"too_long": "cut"}, "too_long must be one of error, truncate, drop, not 'cut'"),
        ({"pad_to": "x"}, "pad_to must be one of"),
    ],
)
def test_settings_out_of_range(arguments: dict[str, Any], said: str) -> None:
    """Each setting that cannot be is refused by name, with what would be right."""
    with pytest.raises(BatchPlanError, match=said):
        build_batch_plan([1, 2, 3], **{"token_budget": 100, **arguments})


PLAIN_BOUNDS = (23, 47, 72, 97)
PLAIN_BYTES = "bd0b6cccdfca49aef41883d47aab6b5f99c20d2248a1b0f4d99210965d2680d5"
PLAIN_FINGERPRINT = "f038acb1ff99f953500444604b211def4d03113f7ca538c1e47ee25c0e1907b4"
PACKED_BYTES = "00a710a467adfbba6b93f32f2d378825aca12b16013f4450ad5a859618696576"
PACKED_FINGERPRINT = "6cc639a88e9ce582020f146eeed799f92f8e6cfa1705aa8467f8943587b5ad77"
