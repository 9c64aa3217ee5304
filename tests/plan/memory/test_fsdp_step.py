"""fsdp and hsdp, followed by hand. Over two ranks a block is gathered into 4,000 bytes, the head into 400."""

from dataclasses import replace

import numpy as np
import pytest

from support.values.small_profile import BLOCK, HEAD, INPUT, KEPT, LOGITS, profile, trace
from torchdeck.contract.plan.model_profile import Event, ModelProfile
from torchdeck.plan.memory.memory_timeline import Peak, Term
from torchdeck.plan.memory.peak import simulate
from torchdeck.plan.memory.sharding import unit_sizes
from torchdeck.plan.memory.spec import StrategySpec

B, H = 4 * BLOCK, 4 * HEAD
STATE = (2 * B + H) // 2 + 16
NCCL = StrategySpec("fsdp", 2, shard=2, backend="nccl")


def peaks(spec: StrategySpec, model: ModelProfile | None = None) -> dict[str, Peak]:
    return {peak.phase: peak for peak in simulate(model or profile(), spec, 0).peaks()}


def test_setup_cuts_unit_by_unit() -> None:
    """All weights, and the shards of the first unit, before its whole weights go."""
    assert peaks(NCCL)["setup"].total == 16 + 2 * B + H + B // 2


def test_a_gpu_sees_one_whole_unit_at_a_time() -> None:
    """The model is built in the machine's memory; the second block comes when the first is cut."""
    assert peaks(replace(NCCL, device="cuda"))["setup"].total == 16 + B // 2 + B + B // 2


def test_forward_holds_two_outputs_of_gathers() -> None:
    """When the second block is gathered, the first one's output is there yet; then it is copied out."""
    found = peaks(NCCL)["forward"]
    # in the second block: head, output and weights of the block, what both blocks keep
    assert found.total == STATE + INPUT + H + 2 * B + 2 * KEPT
    assert found.terms[Term.GATHERED] == H + 2 * B


def test_backward_copies_out_what_was_gathered_ahead() -> None:
    """Output and weights of the first block; of the second what went into its reduce-scatter and came out."""
    found = peaks(NCCL)["backward"]
    assert found.terms[Term.GATHERED] == H + 2 * B
    assert found.terms[Term.BUCKETS] == B
    assert found.terms[Term.GRADIENTS] == H + B // 2
    assert found.total == STATE + INPUT + KEPT + (H + 2 * B) + B + (H + B // 2)


def test_gloo_copies_what_it_gathers() -> None:
    """A block's output, and gloo's copy of it, beside the first block's output."""
    found = peaks(replace(NCCL, backend="gloo"))["forward"]
    assert found.total == STATE + INPUT + KEPT + H + B + B + B
    assert found.terms[Term.BUCKETS] == B


def test_without_resharding_blocks_stay() -> None:
    """All units and an output in the second block; backward ends with the first block and gathers nothing."""
    found = peaks(replace(NCCL, reshard_after_forward=False))
    assert found["forward"].terms[Term.GATHERED] == H + B + 2 * B
    assert found["backward"].terms[Term.GATHERED] == H + B


def test_nothing_is_gathered_while_the_loss_is_backward() -> None:
    """The root's weights, too, are given up after forward, and come again with the gradient of its output."""
    made, large = trace(), 10**6
    where = int(np.flatnonzero(made.kinds == Event.BACKWARD_BEGIN)[0]) + 1
    made = replace(
        made,
        kinds=np.insert(made.kinds, where, [Event.LOGITS, Event.LOGITS]),
        units=np.insert(made.units, where, [0, 0]),
        values=np.insert(made.values, where, [large, -large]),
    )
    assert Term.GATHERED not in peaks(NCCL, profile(made))["backward"].terms
    kept = peaks(replace(NCCL, reshard_after_forward=False), profile(made))["backward"]
    assert kept.terms[Term.GATHERED] == H + 2 * B


@pytest.mark.parametrize(("ranks", "copied"), [(2, 0), (3, 3 * 17 * 20 * 4), (5, 0), (7, 7 * 8 * 20 * 4)])
def test_gradients_of_uneven_rows_are_padded_in_a_copy(ranks: int, copied: int) -> None:
    """A block's 50 rows are 17 for each of three ranks, and divide evenly among two and five."""
    assert unit_sizes(profile(), replace(NCCL, world_size=ranks, shard=ranks))[1].padded == copied


def test_one_rank_gathers_nothing() -> None:
    """Weights are copied from the only shard; there is no output to hold."""
    found = peaks(StrategySpec("fsdp", 1))["forward"]
    assert found.terms[Term.GATHERED] == H + B


def test_gradients_are_reduced_unit_by_unit() -> None:
    """After the step only shards of gradients are left, and then nothing is."""
    spec = replace(NCCL, accumulation=3)
    timeline = simulate(profile(), spec, 0)
    timeline.enter("afterwards")
    timeline.spike(Term.CONTEXT, 1)
    found = {peak.phase: peak for peak in timeline.peaks()}
    assert found["optimizer"].terms[Term.GRADIENTS] == (2 * B + H) // 2
    assert found["afterwards"].terms == {
        Term.PARAMETERS: STATE - 16, Term.BUFFERS: 16, Term.INPUTS: 2 * INPUT, Term.CONTEXT: 1
    }  # fmt: skip


def test_accumulation_keeps_whole_gradients() -> None:
    """Those of all units between two microbatches, in the reduction's precision."""
    whole = 2 * B + H
    found = peaks(replace(NCCL, accumulation=2))["forward"]
    assert found.terms[Term.GRADIENTS] == whole
    bf16 = replace(NCCL, accumulation=2, precision="bf16", param_precision="bf16")
    casted = peaks(bf16, profile(trace(cast=True, item=2), precision="bf16"))["forward"]
    assert casted.terms[Term.GRADIENTS] == whole
    # while the second block is gathered: this rank's part of it in 16 bit beside both outputs
    assert casted.terms[Term.GATHERED] == (H + 2 * B) // 2 + B // 4


@pytest.mark.parametrize("reshard", [True, False])
def test_frozen_units_are_given_up_with_backward(reshard: bool) -> None:
    """The first block is gathered ahead of a backward that does not come to it, and not kept for the next."""
    made = trace()
    backward = (made.units == 1) & (np.arange(len(made.units)) > 12)
    kept = ~backward | (made.kinds == Event.ACTIVATION)
    made = replace(made, kinds=made.kinds[kept], units=made.units[kept], values=made.values[kept])
    timeline = simulate(profile(made), replace(NCCL, accumulation=3, reshard_after_forward=reshard), 0)
    timeline.enter("afterwards")
    timeline.spike(Term.CONTEXT, 1)
    found = {peak.phase: peak for peak in timeline.peaks()}
    assert found["backward"].terms[Term.GATHERED] > 0
    assert Term.GATHERED not in found["afterwards"].terms
    once = peaks(replace(NCCL, reshard_after_forward=reshard), profile(made))["forward"]
    assert found["forward"].terms[Term.GATHERED] == once.terms[Term.GATHERED]


def test_hsdp_is_fsdp_in_a_group() -> None:
    """All-reduce between groups works in place."""
    groups = StrategySpec("hsdp", 8, shard=2, backend="nccl")
    assert peaks(groups) == peaks(NCCL)


def test_forward_adds_up() -> None:
    """Logits come after the last gather's output; a large loss makes the end of forward the peak."""
    found = peaks(replace(NCCL, microbatch=1000), profile(trace(1000)))["forward"]
    assert found.total == STATE + 1000 * (INPUT + 2 * KEPT + LOGITS) + H + B
