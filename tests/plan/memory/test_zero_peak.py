"""ZeRO over two ranks, followed by hand: 2,100 elements, of which each rank updates 1,050.

Gradients come as 400 bytes of the head, then 4,000 of either block; the bucket holds 6,000, so the last one
finds no room in it.
"""

from dataclasses import replace

import pytest

from support.values.small_profile import INPUT, KEPT, LOGITS, profile, trace
from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.plan.memory.memory_timeline import Peak, Term
from torchdeck.plan.memory.spec import Kind, StrategySpec
from torchdeck.plan.memory.zero_peak import zero_peaks
from torchdeck.plan.memory.zero_state import ZeroOptions

WHOLE, BLOCK, HEAD, BUCKET = 8400, 4000, 400, 6000
OPTIMIZER = 12 * 1050 + 4
"""Master weights, two moments and a step count."""
OWN = 8000
"""Both blocks reach into the second rank's half."""
KEEPS = 16 + WHOLE + OPTIMIZER + INPUT
OPTIONS = ZeroOptions(BUCKET // 4, persistence=0)


def peaks(
    kind: Kind, model: ModelProfile | None = None, options: ZeroOptions = OPTIONS, **more: object
) -> dict[str, Peak]:
    spec = replace(StrategySpec("ddp", 2, device="cuda").with_kind(kind), **more)  # type: ignore[arg-type]
    return {peak.phase: peak for peak in zero_peaks(model or profile(), spec, options)}


def test_stage_2_copies_its_own_when_the_bucket_is_full() -> None:
    """While the last gradient waits for the bucket: it, the bucket, and copies of both blocks' gradients."""
    found = peaks("zero2")
    assert found["forward"].total == KEEPS + 2 * KEPT + LOGITS
    assert found["backward"].total == KEEPS + KEPT + BUCKET + BLOCK + OWN
    assert found["optimizer"].total == KEEPS + OWN + 4 * 1050


def test_stage_1_reduces_after_backward() -> None:
    """All gradients are whole until then; the last one is when the others have been copied."""
    found = peaks("zero1")
    assert found["backward"].total == KEEPS + BUCKET + BLOCK + OWN
    assert found["backward"].terms[Term.GRADIENTS] == BLOCK + OWN


@pytest.mark.parametrize(("kind", "kept"), [("zero1", WHOLE + BUCKET), ("zero2", OWN)])
def test_between_microbatches_gradients_stay(kind: Kind, kept: int) -> None:
    """Stage 1's are whole and its bucket with them, stage 2's are the rank's own."""
    found = peaks(kind, accumulation=3)
    assert found["forward"].total == KEEPS + 2 * KEPT + LOGITS + kept


def test_a_gradient_larger_than_the_bucket_is_reduced_where_it_is() -> None:
    """It is not copied through the bucket; under stage 2 it goes when the next one comes."""
    found = peaks("zero2", options=ZeroOptions(500, persistence=0))
    assert found["backward"].total == KEEPS + KEPT + 2000 + OWN + 2 * BLOCK


def test_16_bit_gradients_are_flattened_and_made_fp32() -> None:
    """Both at once in the update, beside the rank's own."""
    model = profile(trace(cast=True, item=2), precision="bf16")
    found = peaks("zero2", model, precision="bf16")
    assert found["optimizer"].total == KEEPS - WHOLE // 2 + OWN // 2 + (2 + 4) * 1050


def test_stage_3_gathers_all_that_may_stay() -> None:
    """A small model whole, and what it was gathered into; of a large one a unit more than the limit."""
    kept = 16 + 2 * (WHOLE // 2) + OPTIMIZER + BUCKET + INPUT
    found = peaks("zero3")
    assert found["forward"].total == kept + 2 * KEPT + LOGITS + 2 * WHOLE
    assert found["backward"].terms[Term.GATHERED] == WHOLE
    few = peaks("zero3", options=replace(OPTIONS, max_live=50, prefetch=10))
    assert few["backward"].terms[Term.GATHERED] == 2 * BLOCK + 4 * (50 + 10)


@pytest.mark.parametrize("kind", ["zero1", "zero2"])
def test_offload_leaves_no_gradients_on_a_gpu(kind: Kind) -> None:
    """Nor optimizer state; a CPU rank has it all in one memory."""
    on_gpu, on_cpu = peaks(kind, offload=True), peaks(kind, offload=True, device="cpu")
    assert Term.OPTIMIZER not in on_gpu["forward"].terms
    assert Term.GRADIENTS not in on_gpu["optimizer"].terms
    assert on_cpu["optimizer"].terms[Term.OPTIMIZER] == OPTIMIZER


def test_setup_on_the_cpu_flattens_a_copy() -> None:
    """The model and what it is flattened into."""
    assert peaks("zero1", device="cpu")["setup"].total == 16 + 2 * WHOLE
    assert peaks("zero1")["setup"].total == 16
