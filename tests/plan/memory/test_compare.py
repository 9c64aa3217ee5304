"""Strategies side by side."""

from support.values.small_profile import profile
from torchdeck.plan.memory.predict import compare
from torchdeck.plan.memory.spec import Kind, StrategySpec


def test_strategies_side_by_side() -> None:
    """Each with its ranks' memory; what cannot be is said, and what is not validated noted."""
    kinds: list[Kind] = ["single", "ddp", "fsdp", "hsdp", "zero3"]
    specs = [StrategySpec("ddp", 4).with_kind(kind, shard=2) for kind in kinds]
    single, ddp, fsdp, hsdp, zero3 = compare(profile(), specs, [10**9] * 4)
    assert single.problem == "single is one rank, and there are 4"
    assert single.worst is None
    kept = [sum(found.memory[0].state.values()) for found in (ddp, hsdp, fsdp)]
    assert kept == sorted(kept, reverse=True)
    assert ddp.worst is not None
    assert ddp.worst.verdict == "fits"
    assert not zero3.notes
    assert not fsdp.notes


def test_what_was_not_traced_is_a_problem_of_that_strategy() -> None:
    """The others are compared all the same."""
    specs = [StrategySpec("ddp", 2, microbatch=7), StrategySpec("ddp", 2)]
    missing, there = compare(profile(), specs)
    assert "7 cannot be predicted" in missing.problem
    assert there.memory


def test_the_worst_rank_has_the_least_room() -> None:
    """Not the first one."""
    (found,) = compare(profile(), [StrategySpec("ddp", 3)], [10**9, 4 * 10**8, 10**9])
    assert found.worst is not None
    assert found.worst.ranks == ((1, 1),)


def test_a_device_with_nothing_free_is_the_worst() -> None:
    """Nothing free is not the same as not known."""
    (found,) = compare(profile(), [StrategySpec("ddp", 2)], [10**9] * 2, [None, 0])
    assert found.worst is not None
    assert found.worst.ranks == ((1, 1),)
