"""Exchange of values through a strategy, on real ranks over gloo and on one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from support.ranks.measured_ranks import measure
from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.data import sampler as sampler_of_ids
from torchdeck.distributed import DistributedSampler, DistributedStrategy
from torchdeck.distributed.strategies.prepared_loader import PreparedDataLoader

pytestmark = pytest.mark.processes

BODY = "support.ranks.exchanging_ranks"


def test_every_method_gives_every_rank_its_values() -> None:
    """Three ranks with DDP and one alone: rows, numbers and JSON; only rank 0 prints."""
    jobs: list[dict[str, Any]] = [
        {"world_size": 3, "strategy": "ddp"},
        {"world_size": 1, "strategy": "single"},
    ]
    three, (one,) = measure(f"{BODY}:exchange", jobs)
    for rank, found in enumerate(three):
        assert found == {
            "rows": [[0.0, 0.0]] + 2 * [[1.0, 1.0]] + 3 * [[2.0, 2.0]],
            "scalars": [0, 1, 2],
            "values": [{"rank": 0, "text": ""}, {"rank": 1, "text": "ä"}, {"rank": 2, "text": "ää"}],
            "sum": [3, 30],
            "mean": [1.0, 10.0],
            "number": [3.0, 1.0, 0.0, 2.0],
            "tensor of the last": [2, 20],
            "value of the first": {"of": 0},
            "printed": "from-0\n" if rank == 0 else "",
            "unchanged": [rank, 10 * rank],
        }
    assert (one["rows"], one["values"], one["number"]) == ([[0.0, 0.0]], [{"rank": 0, "text": ""}], [0.0] * 4)


def test_ranks_that_disagree_are_named() -> None:
    """Another shape, another operation or another method on one rank is an error on both, not a hang."""
    calls = [
        ("strategy.reduce(torch.ones(2))", "strategy.reduce(torch.ones(3))", "shape (3,)"),
        ("strategy.reduce(1.0, 'mean')", "strategy.reduce(1.0, 'max')", "max"),
        ("strategy.gather(1)", "strategy.broadcast(1)", "broadcast"),
    ]
    jobs = [{"world_size": 2, "calls": pair[:2]} for pair in calls]
    for (_, _, named), heard in zip(calls, measure(f"{BODY}:disagree", jobs), strict=True):
        assert heard[0] == heard[1]
        assert "rank 1" in heard[0]
        assert named in heard[0]


def test_a_prepared_loader_divides_every_epoch() -> None:
    """Two ranks share all samples; each pass has another order if the loader shuffles."""
    jobs: list[dict[str, Any]] = [
        {"world_size": 2, "samples": 8, "shuffle": False, "drop_last": False},
        {"world_size": 2, "samples": 8, "shuffle": True, "drop_last": False},
        {"world_size": 2, "samples": 6, "shuffle": False, "drop_last": True},
    ]
    ordered, shuffled, cut = measure(f"{BODY}:load", jobs)
    assert [rank["epochs"][0] for rank in ordered] == [[[0, 2], [4, 6]], [[1, 3], [5, 7]]]
    assert ordered[0]["epochs"][0] == ordered[0]["epochs"][1]
    for epoch in range(2):
        seen = [index for rank in shuffled for batch in rank["epochs"][epoch] for index in batch]
        assert sorted(seen) == list(range(8))
    assert shuffled[0]["epochs"][0] != shuffled[0]["epochs"][1]
    assert [rank["epochs"][0] for rank in cut] == [[[0, 2]], [[1, 3]]]
    assert [(rank["length"], rank["ranks"]) for rank in cut] == [(1, 2)] * 2


def test_a_sampler_finds_its_rank() -> None:
    """In the launcher's variables before the group is joined, and in the group afterwards; it is torch's."""
    (ranks,) = measure(f"{BODY}:sample", [{"world_size": 2, "seed": 5}])
    assert ranks == [[rank, 2, rank, 2, True, True] for rank in range(2)]


class OwnBatches(BatchSampler):
    """Another order of batches."""


def loader_of(**options: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.arange(6)), **options)


def prepared(loader: DataLoader[Any]) -> PreparedDataLoader[Any]:
    return PreparedDataLoader(loader, rank=1, world_size=2, device=torch.device("cpu"))


def test_a_loader_with_a_distributed_sampler_keeps_it() -> None:
    """Workers and collate function are kept, too."""
    sampler = DistributedSampler(range(6), 2, 1, shuffle=False, exactly_once=True)
    made = prepared(loader_of(sampler=sampler, batch_size=3, collate_fn=list))
    assert made.sampler is sampler
    assert [len(batch) for batch in made] == [3]
    assert prepared(loader_of(collate_fn=len)).loader.collate_fn is len


def test_the_sampler_says_which_epoch_it_is() -> None:
    """Set by either's set_epoch; without that each pass goes on to the next. A loaded position is kept."""
    made = prepared(loader_of(batch_size=3, shuffle=True))

    def passed() -> tuple[int, list[int]]:
        (batch,) = [batch[0].tolist() for batch in made]
        return made.sampler.epoch, batch

    orders = [passed(), passed(), passed()]
    assert [epoch for epoch, _ in orders] == [0, 1, 2]
    assert orders[0][1] != orders[2][1]
    for epoch, set_epoch in ((0, made.set_epoch), (2, made.sampler.set_epoch)):
        set_epoch(epoch)
        assert passed() == orders[epoch]
    made.sampler.set_epoch(7)
    assert passed()[0] == 7
    assert isinstance(made.sampler, DistributedSampler)
    state = made.sampler.state_dict()
    made.sampler.load_state_dict({**state, "position": {**state["position"], "epoch": 3, "consumed": 4}})
    assert made.sampler.epoch == 3
    assert [len(batch[0]) for batch in made] == [1]


def test_the_librarys_own_sampler_is_kept() -> None:
    """It needs no torch, and is no class of torch's."""
    sampler = sampler_of_ids.DistributedSampler(range(6), 2, 1)
    assert prepared(loader_of(sampler=sampler)).sampler is sampler


@pytest.mark.parametrize(
    "options",
    [
        {"sampler": RandomSampler(range(6), replacement=True)},
        {"sampler": RandomSampler(range(6), num_samples=3)},
        {"sampler": WeightedRandomSampler([1.0] * 6, 6)},
        {"batch_sampler": OwnBatches(SequentialSampler(range(6)), 2, drop_last=False)},
        {"batch_size": None},
    ],
    ids=["replaced", "short", "weighted", "batches", "unbatched"],
)
def test_a_loader_that_cannot_be_divided_is_refused(options: dict[str, Any]) -> None:
    """A sampler of one's own would draw the same samples on every rank."""
    with pytest.raises(ArgumentError, match="or one with a DistributedSampler"):
        prepared(loader_of(**options))


def test_values_that_cannot_be_sent_are_refused() -> None:
    """Objects, and ranks that are not there, before anything is exchanged."""
    with DistributedStrategy.from_config("single") as strategy:
        with pytest.raises(ArgumentError, match="give a tensor, a number, a text"):
            strategy.gather(object())  # type: ignore[call-overload]  # wrong on purpose
        with pytest.raises(ArgumentError, match="source is 1: expected a whole number from 0 to 0"):
            strategy.broadcast(3, source=1)
        with pytest.raises(ArgumentError, match="op is 'avg': expected 'sum' or 'mean'"):
            strategy.reduce(3.0, "avg")  # type: ignore[call-overload]  # wrong on purpose


@pytest.mark.processes
def test_saves_leave_no_sockets_open(tmp_path: Path) -> None:
    """Each has a group of its own, whose sockets would reach the limit of descriptors in a long training."""
    (found,) = measure(
        "support.ranks.exchanging_ranks:save_repeatedly", [{"world_size": 3, "folder": str(tmp_path)}]
    )
    for counted in found:
        assert counted[-1] <= counted[0], counted  # one of the first wrapping may close late
