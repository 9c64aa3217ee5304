"""Strategies in scripts of one's own, and models wrapped by one call, on real ranks."""

from typing import Any

import pytest

from support.ranks.measured_ranks import Job, measure
from support.ranks.wrapped_ranks import mean_gradient

pytestmark = pytest.mark.processes

SCRIPTS: dict[str, Job] = {
    "single": {"world_size": 1, "config": {"strategy": "single"}},
    "ddp": {"world_size": 3, "config": {"strategy": "ddp"}},
    "ddp-small-buckets": {"world_size": 2, "config": {"strategy": "ddp", "ddp": {"bucket_size_mb": 0.0001}}},
    "fsdp": {"world_size": 3, "config": {"strategy": "fsdp"}},
    "fsdp-offload": {"world_size": 2, "config": {"strategy": "fsdp", "fsdp": {"cpu_offload": True}}},
    "hsdp": {"world_size": 4, "config": {"strategy": "hsdp", "hsdp": {"shard": 2}}},
}


CALLS: dict[str, Job] = {
    "ddp": {"how": "ddp", "joined": True, "options": {"bucket_size_mb": 1.0}},
    "ddp-by-hand": {"how": "ddp", "joined": "by hand", "options": {}},
    "ddp-by-environment": {"how": "ddp", "joined": False, "options": {}},
    "fsdp": {"how": "fsdp", "joined": True, "options": {}},
    "fsdp-grad-op": {
        "how": "fsdp",
        "joined": False,
        "blocks": True,
        "options": {"sharding": "grad-op", "activation_checkpointing": True},
    },
    "fsdp-hybrid": {"how": "fsdp", "joined": False, "options": {"sharding": "hybrid", "shard": 1}},
    "fsdp-offload": {"how": "fsdp", "joined": False, "options": {"cpu_offload": True}},
}
REFUSED: dict[str, Job] = {
    "ddp-shapes": {"differ": "shapes", "config": {"strategy": "ddp"}},
    "fsdp-shapes": {"differ": "shapes", "config": {"strategy": "fsdp"}},
    "hsdp-shapes": {"differ": "shapes", "config": {"strategy": "hsdp"}},
    "kept-weights": {
        "differ": "weights",
        "config": {"strategy": "ddp", "ddp": {"broadcast_parameters": False}},
    },
    "frozen": {"differ": "nothing", "config": {"strategy": "ddp"}},
    "frozen-on-one": {"differ": "trained", "config": {"strategy": "ddp"}},
    "sent-weights": {"differ": "weights", "config": {"strategy": "ddp"}},
}
UNUSED: Job = {"config": {"strategy": "ddp", "ddp": {"find_unused_parameters": True}}}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What each rank of each job found, by the job's body and name; all of them forked from one process."""
    jobs = {
        **{f"hand_written:{name}": job for name, job in SCRIPTS.items()},
        **{f"by_one_call:{name}": job for name, job in CALLS.items()},
        **{f"refused:{name}": job for name, job in REFUSED.items()},
        **{f"begun_alike:{name}": {"config": {"strategy": name}} for name in ("ddp", "fsdp", "hsdp")},
        "said_by_hand:": {},
        "used_by_one_rank:": UNUSED,
    }
    folder = tmp_path_factory.mktemp("stores")
    done = measure(
        "support.ranks.wrapped_ranks:body",
        [
            {"world_size": 2, "body": name.partition(":")[0], "file": str(folder / str(number)), **job}
            for number, (name, job) in enumerate(jobs.items())
        ],
    )
    return dict(zip(jobs, done, strict=True))


@pytest.mark.parametrize("name", SCRIPTS)
def test_gradients_are_means_over_the_ranks(found: dict[str, list[Any]], name: str) -> None:
    """Whether the last backward reduces what was accumulated under no_sync, or sync_gradients does."""
    expected = mean_gradient(SCRIPTS[name]["world_size"], numbers=3)
    for rank in found[f"hand_written:{name}"]:
        assert rank["last"] == pytest.approx(expected, rel=1e-4, abs=1e-6)
        assert rank["afterwards"] == pytest.approx(expected, rel=1e-4, abs=1e-6)
        assert rank["norm"] == pytest.approx(sum(value**2 for value in expected) ** 0.5, rel=1e-4)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_checkpoint_by_one_call_brings_everything_back(found: dict[str, list[Any]], name: str) -> None:
    """Weights bit for bit, the optimizer's state, the step, and what was given besides."""
    for rank in found[f"hand_written:{name}"]:
        assert rank["loaded"] == rank["stepped"]
        assert rank["momentum"]
        assert rank["step"] == 1
        assert rank["extra"] == {"note": "kept"}


@pytest.mark.parametrize("name", CALLS)
def test_one_call_wraps_a_model(found: dict[str, list[Any]], name: str) -> None:
    """DDP and every sharding of FSDP, in a group that is there, of which no variable may speak, or is made
    from torchrun's variables."""
    expected = mean_gradient(2, numbers=1)
    assert found[f"by_one_call:{name}"] == [pytest.approx(expected, rel=1e-4, abs=1e-6)] * 2


@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "hsdp"])
def test_models_of_other_shapes_are_refused_by_name(found: dict[str, list[Any]], strategy: str) -> None:
    """Each rank names the tensor, two ranks and what they have."""
    for said in found[f"refused:{strategy}-shapes"]:
        assert "2.weight is [[3, 7]" in said
        assert "on rank 0 and [[4, 7]" in said


def test_models_of_other_weights_are_refused_where_they_are_not_sent(found: dict[str, list[Any]]) -> None:
    weights = found["refused:kept-weights"]
    assert len(set(weights)) == 1
    assert "different weights: 0.bias is" in weights[0]
    assert "set broadcast_parameters" in weights[0]
    assert found["refused:sent-weights"] == ["", ""]


def test_a_model_with_nothing_to_train_is_refused(found: dict[str, list[Any]]) -> None:
    """By a sentence of ours, before torch has one."""
    for said in found["refused:frozen"]:
        assert said.startswith("the model has no parameters to train, so DDP has no gradients to average")


def test_a_model_that_one_rank_has_frozen_is_refused_by_all(found: dict[str, list[Any]]) -> None:
    """None is left waiting for the one that refuses."""
    said = found["refused:frozen-on-one"]
    assert len(set(said)) == 1
    assert "different parameters to train (requires_grad): 0.bias is true on rank 0 and false on" in said[0]


@pytest.mark.parametrize("strategy", ["fsdp", "hsdp"])
def test_ranks_begin_with_the_weights_of_the_first(found: dict[str, list[Any]], strategy: str) -> None:
    """Whatever each has drawn, shards are of one model: the one that ddp begins with."""
    ddp = found["begun_alike:ddp"]
    assert ddp[0] == ddp[1]
    assert found[f"begun_alike:{strategy}"] == ddp


def test_a_strategy_of_a_rank_that_no_variable_speaks_of(found: dict[str, list[Any]]) -> None:
    """It meets the others where it was told to; in a group that is there it is that rank, or refuses."""
    for rank, said in enumerate(found["said_by_hand:"]):
        refused = said.pop("refused")
        assert refused.startswith(f"this process was joined as rank {rank} of 2, and is to be rank 0 of 1")
        assert said == {
            "sum": [3.0],
            "during": [rank, rank],
            "after": [0, 0],  # no variable is left behind
            "left": True,
            "joined": [rank, rank, 3.0, rank, rank],
            "kept": True,
        }


def test_gradients_that_one_rank_has_are_synchronised(found: dict[str, list[Any]]) -> None:
    """A rank that did not use a parameter brings in zeros; what none used, or is frozen, has no gradient."""
    assert found["used_by_one_rank:"] == [[[0.5], [1.0], None, None]] * 2
