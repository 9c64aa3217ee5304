"""What would make it fit: each suggestion does."""

from dataclasses import replace

import pytest

from support.values.small_profile import profile, trace
from torchdeck.contract.plan.model_profile import ModelProfile, Trace
from torchdeck.plan.memory.peak import predict_peak
from torchdeck.plan.memory.replay import UntracedError
from torchdeck.plan.memory.spec import StrategySpec
from torchdeck.plan.memory.suggest import suggest

MODEL = profile(trace(16), trace(8))
DDP = StrategySpec("ddp", 4, microbatch=16)


def checkpointed(microbatch: int) -> Trace:
    """A trace in which blocks keep next to nothing."""
    made = trace(microbatch, checkpointing=True)
    made.values[(made.kinds == 11)] //= 100
    return made


def total(spec: StrategySpec, model: ModelProfile = MODEL) -> int:
    return predict_peak(model, spec).highest.total


def test_a_smaller_microbatch_keeps_the_global_batch() -> None:
    """The largest that fits, though accumulating costs gradients of their own under ddp."""
    single = StrategySpec("single", 1, microbatch=16, optimizer="sgd")
    wanted = total(replace(single, microbatch=4, accumulation=4))
    found = suggest(MODEL, single, round(wanted / 0.9) + 4000)
    assert found[0].change == {"training.microbatch": 4, "training.accumulation": 4}
    assert found[0].peak_bytes == wanted
    assert found[0].sentence.startswith("training.microbatch = 4, training.accumulation = 4: ")


def test_changes_stand_in_order_of_their_price() -> None:
    """Microbatch, checkpointing, precision, sharding, resharding, global batch: all that suffice."""
    model = profile(trace(16), trace(8), checkpointed(16), checkpointed(8))
    narrow = profile(trace(16, item=2), trace(8, item=2), trace(16, cast=True, item=2), precision="bf16")
    spec = replace(DDP, kind="fsdp", shard=2, world_size=4, reshard_after_forward=False)
    spec = replace(spec, kind="hsdp")
    found = suggest(model, spec, 10**12, others=[narrow])
    assert [next(iter(one.change)) for one in found] == [
        "training.microbatch",
        "training.activation_checkpointing",
        "training.precision",
        "distributed.strategy",
        "distributed.fsdp.reshard_after_forward",
        "training.microbatch",
    ]
    assert found[-1].change == {"training.microbatch": 8, "training.accumulation": 1}
    assert {one.verdict for one in found} == {"fits"}


def test_every_suggestion_was_computed() -> None:
    """Its peak is that of the changed run, and fits."""
    for capacity in range(total(DDP) - 9000, total(DDP), 500):
        for one in suggest(MODEL, DDP, capacity):
            assert one.peak_bytes <= capacity
            changed = replace(
                DDP,
                microbatch=one.change.get("training.microbatch", 16),
                accumulation=one.change.get("training.accumulation", 1),
            )
            if "distributed.strategy" in one.change:
                changed = changed.with_kind("fsdp")
            assert total(changed) == one.peak_bytes


def test_changes_are_combined_where_none_suffices() -> None:
    """Sharding and a smaller microbatch together."""
    both = total(replace(DDP.with_kind("fsdp"), microbatch=1, accumulation=16))
    alone = min(total(replace(DDP, microbatch=1, accumulation=16)), total(DDP.with_kind("fsdp")))
    assert both < alone
    (found,) = suggest(MODEL, DDP, both)
    assert found.change == {
        "distributed.strategy": "fsdp",
        "training.microbatch": 1,
        "training.accumulation": 16,
    }


def test_accumulation_may_cost_more_than_it_spares() -> None:
    """Under fsdp it keeps whole gradients: then only a smaller global batch helps."""
    spec = replace(DDP.with_kind("fsdp"), microbatch=1, accumulation=2, backend="nccl")
    wanted = total(replace(spec, accumulation=1))
    (found,) = suggest(MODEL, spec, wanted)
    assert (found.change, found.peak_bytes) == ({"training.accumulation": 1}, wanted)
    assert "a global batch of 1/2" in found.sentence
    kept = suggest(MODEL, spec, wanted, keep_microbatch=True)
    assert [one.change for one in kept] == [{"training.accumulation": 1}]


def test_what_is_tight_already_needs_room() -> None:
    """A change after which it is as tight is none."""
    peak = total(DDP)
    assert all(one.verdict == "fits" for one in suggest(MODEL, DDP, round(peak / 0.95)))
    assert suggest(MODEL, DDP, peak + 1, keep_microbatch=True) == ()


@pytest.mark.parametrize("keep", [True, False])
def test_nothing_is_suggested_that_does_not_suffice(keep: bool) -> None:
    """A device that is too small for anything; and a microbatch that is not the config's is left alone."""
    assert suggest(MODEL, DDP, 1000, keep_microbatch=keep) == ()
    changes = [one.change for one in suggest(MODEL, DDP, 10**12, keep_microbatch=keep)]
    assert any("training.microbatch" in change for change in changes) is not keep


def test_under_zero_more_is_divided_or_offloaded() -> None:
    """A higher stage, the lowest that suffices, and the optimizer in the machine's memory on GPUs."""
    spec = replace(DDP.with_kind("zero1"), device="cuda", zero_bucket_mb=0.001)
    whole = total(spec)
    changes = {key: value for one in suggest(MODEL, spec, whole * 2) for key, value in one.change.items()}
    assert changes["distributed.deepspeed.zero_stage"] == 2
    assert changes["distributed.deepspeed.offload_optimizer"] is True
    assert "distributed.strategy" not in changes
    on_cpu = {key for one in suggest(MODEL, replace(spec, device="cpu"), whole * 2) for key in one.change}
    assert "distributed.deepspeed.offload_optimizer" not in on_cpu


def test_offloaded_weights_are_not_predicted() -> None:
    """Said, instead of a number that no one computed."""
    with pytest.raises(UntracedError, match="DeepSpeed decides which weights are on the device"):
        predict_peak(MODEL, replace(DDP.with_kind("zero3"), offload=True, offload_parameters=True))
