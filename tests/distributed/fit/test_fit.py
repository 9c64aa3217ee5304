"""DistributedTrainer on real ranks: the same at any world size, and the same on every rank."""

from typing import Any

import pytest

from support.ranks.measured_ranks import measure

pytestmark = pytest.mark.processes

UNEVEN = 23
"""Samples that neither 2 nor 3 ranks can share evenly."""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What each rank found, by job."""
    folder = str(tmp_path_factory.mktemp("checkpoints"))
    jobs: dict[str, dict[str, Any]] = {
        **{f"evaluated {n}": {"scenario": "evaluated", "size": UNEVEN, "world_size": n} for n in (1, 2, 3)},
        # one global batch of 12 in three ways; 60 samples, of which 48 are for training
        "trained 1": _trained(1, accumulation=3, microbatch=4, dataset=True),
        "trained 2": _trained(2, accumulation=1, microbatch=6),
        "trained 3": _trained(3, accumulation=2, microbatch=2),
        "resumed": {"scenario": "stopped_and_resumed", "folder": folder, "world_size": 2},
        "gone on": {"scenario": "gone_on", "size": 25, "world_size": 2},
        "early": {"scenario": "ended_early", "world_size": 2},
        "optimizer ddp": {"scenario": "own_optimizer", "strategy": "ddp", "world_size": 2},
        "optimizer fsdp": {"scenario": "own_optimizer", "strategy": "fsdp", "world_size": 2},
        "different": {"scenario": "different", "world_size": 2},
    }
    return dict(
        zip(jobs, measure("support.ranks.fit_ranks:run", list(jobs.values()), limit=220), strict=True)
    )


def _trained(world_size: int, **options: Any) -> dict[str, Any]:
    return {"scenario": "trained", "size": 60, "world_size": world_size, **options}


@pytest.mark.parametrize("world_size", [2, 3])
def test_evaluation_of_uneven_shards_is_that_of_one_process(
    ranks: dict[str, list[Any]], world_size: int
) -> None:
    """Loss and accuracy to 1e-6, with targets that do not count too, on every rank."""
    (alone,) = ranks["evaluated 1"]
    assert [set(values) for values in alone] == [{"loss", "accuracy"}] * 2
    for rank in ranks[f"evaluated {world_size}"]:
        for found, wanted in zip(rank, alone, strict=True):
            assert found == pytest.approx(wanted, rel=1e-6)
    assert alone[0] != alone[1]


def test_training_is_the_same_at_any_world_size(ranks: dict[str, list[Any]]) -> None:
    """The same global batch on 1, 2 and 3 ranks, from tensors or a data set; the ranks' models differ."""
    (alone,) = ranks["trained 1"]
    for world_size in (2, 3):
        found = ranks[f"trained {world_size}"]
        assert all(rank == found[0] for rank in found)
        assert found[0]["evaluated"] == pytest.approx(alone["evaluated"], rel=1e-4)
        for one, other in zip(found[0]["history"]["steps"], alone["history"]["steps"], strict=True):
            assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
            assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-3)


def test_the_history_says_what_was_trained(ranks: dict[str, list[Any]]) -> None:
    """Epochs are the weighted means of their steps; 48 of 60 samples in batches of 12, 12 held out."""
    history = ranks["trained 2"][0]["history"]
    assert (history["world_size"], history["effective_batch_size"], history["finished"]) == (2, 12, True)
    assert [epoch["step"] for epoch in history["epochs"]] == [4, 8, 12]
    for epoch in history["epochs"]:
        steps = [step for step in history["steps"] if step["epoch"] == epoch["epoch"]]
        assert epoch["samples"] == sum(step["samples"] for step in steps) == 48
        for name in ("loss", "accuracy"):
            values = [step["loss"] if name == "loss" else step["metrics"][name] for step in steps]
            mean = epoch["loss"] if name == "loss" else epoch["metrics"][name]
            assert mean == pytest.approx(sum(values) / len(values))
        assert set(epoch["validation"]) == {"loss", "accuracy"}
        assert epoch["samples_per_s"] == pytest.approx(epoch["samples"] / epoch["seconds"])
    assert history["epochs"][-1]["loss"] < history["epochs"][0]["loss"]
    assert history["seconds"] > sum(epoch["seconds"] for epoch in history["epochs"])


def test_a_resumed_training_is_bit_for_bit_that_which_was_not_stopped(ranks: dict[str, list[Any]]) -> None:
    """With dropout; what was saved evaluates as before, in another trainer too."""
    for rank in ranks["resumed"]:
        assert rank["hashes"][0] == rank["hashes"][1]
        assert rank["losses"][0] == rank["losses"][1]
        assert rank["steps"] == [5, 6]
        saved, resumed, loaded, whole = rank["evaluated"]
        assert saved == resumed
        assert loaded == whole
        assert saved != whole
        assert "step_00000002" in rank["saved"]


def test_two_calls_of_fit_are_one_longer_call(ranks: dict[str, list[Any]]) -> None:
    """Bit for bit, dropout included."""
    for rank in ranks["gone on"]:
        assert rank["hashes"][0] == rank["hashes"][1]
        assert rank["epochs"] == [1, 2, 3, 4]


def test_training_ends_early_on_all_ranks_together(ranks: dict[str, list[Any]]) -> None:
    """When one rank's callback asks for it, and when validation gets no better; later calls may continue."""
    first, second = ranks["early"]
    assert first["asked"] == second["asked"] == 3
    assert [rank["reasons"][0] for rank in (first, second)] == [
        "3: a callback on another rank asked for it",
        "3: enough",
    ]
    epochs = first["history"]["epochs"]
    losses = [epoch["validation"]["loss"] for epoch in epochs]
    assert len(losses) == first["epochs"][1]
    best = losses.index(min(losses))
    assert first["epochs"] == [best + 3, best + 5]
    assert first["history"]["finished"]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_groups_of_an_own_optimizer_keep_their_learning_rates(
    ranks: dict[str, list[Any]], strategy: str
) -> None:
    """1 : 10 throughout; sharding replaces the parameters, and the optimizer continues with the new ones."""
    found = ranks[f"optimizer {strategy}"][0]
    assert found["object"]["rates"] == pytest.approx([0.01, 0.1])
    assert found["function"]["lr"] == pytest.approx([0.05, 0.1, 0.1])
    assert found["object"]["loss"] == pytest.approx(ranks["optimizer ddp"][0]["object"]["loss"], rel=1e-5)
    for kind in found.values():
        assert kind["loss"][2] < kind["loss"][0]


def test_ranks_that_do_not_mean_the_same_are_told_so(ranks: dict[str, list[Any]]) -> None:
    for rank in ranks["different"]:
        model, samples, steps = rank
        assert model.startswith("AgreementError")
        assert "0.bias" in model
        assert "samples to evaluate is 8 on rank 0 and 9 on rank 1" in samples
        assert "training.steps is 1 on rank 0 and 2 on rank 1" in steps
