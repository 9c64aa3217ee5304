"""Memory of ranks against what devices have."""

import dataclasses

import numpy as np

from support.values.machines import byte_gpt, node
from support.values.previews import memory, preview, profile
from support.values.small_profile import profile as small_profile
from support.values.small_profile import trace as small_trace
from torchdeck.contract.plan.model_profile import NO_BLOCKS, ONE_UNIT
from torchdeck.contract.plan.prediction import Prediction
from torchdeck.data.batch_plan import build_batch_plan
from torchdeck.plan.fitting import capacities, free_bytes, spec_of, suggested
from torchdeck.plan.known import Known
from torchdeck.plan.memory.fullness import make_memory
from torchdeck.plan.memory.peak import predict_peak
from torchdeck.plan.memory.spec import StrategySpec
from torchdeck.plan.placement import NodeShare


def test_ranks_on_the_cpu_share_the_machine() -> None:
    """Its memory and what is free of it, in equal parts; GPUs have their own."""
    machine = dataclasses.replace(node(gpus=2), memory_bytes=100, free_bytes=50)
    cpu = NodeShare(machine, 0, 4, ())
    assert (capacities([cpu]), free_bytes([cpu])) == ([25] * 4, [12] * 4)
    gpu = NodeShare(machine, 0, 2, machine.devices)
    assert (capacities([gpu]), free_bytes([gpu])) == ([2**30] * 2, [None, None])
    assert capacities([NodeShare(node(), 0, 1, ())]) == [None]


def test_a_batch_plan_is_as_large_as_its_heaviest_microbatch() -> None:
    """Memory is that of the most tokens, neither of the mean nor of the most samples."""
    plan = build_batch_plan(np.arange(1, 65), token_budget=64)
    heaviest = max(plan.iter_epoch(0), key=lambda one: (one.padded_tokens, one.max_len)).batch_size
    assert heaviest < max(one.batch_size for one in plan.iter_epoch(0))
    config = byte_gpt(training={"epochs": 1, "batch_plan": "/bp"}, distributed={"nproc": 2})
    share = NodeShare(node(), 0, 2, ())
    assert spec_of(config, [share], "gloo", Known(batch_plan=plan)).microbatch == heaviest


def test_an_estimate_counts_samples_of_its_own_length() -> None:
    """Two rows of 512 tokens are one sample of a context of 1,024, however many are packed into them."""
    plan = build_batch_plan(np.full(64, 128), token_budget=1024, max_length=512, pack=True)
    estimated = dataclasses.replace(profile(tokens=1024.0), source="closed form")
    config = byte_gpt(training={"epochs": 1, "batch_plan": "/bp"}, distributed={"nproc": 2})
    share = NodeShare(node(), 0, 2, ())
    assert spec_of(config, [share], "gloo", Known(estimated, plan)).microbatch == 1
    assert spec_of(config, [share], "gloo", Known(profile(tokens=128.0), plan)).microbatch == 8


def test_nothing_is_suggested_where_it_fits() -> None:
    """Nor where nothing is known of the model."""
    made = preview(1, 2)
    fits = make_memory(Prediction("traced", (memory(),)))
    assert fits is not None
    assert made.spec is not None
    assert suggested(made.spec, fits, made.known) == ()
    misfit = make_memory(Prediction("traced", (memory(peak=90, verdict="does not fit"),)))
    assert misfit is not None
    assert suggested(made.spec, misfit, Known()) == ()


def test_what_is_suggested_fits_the_rank_with_the_least() -> None:
    """Not only the one that is fullest by its capacity: another has less of its memory free."""
    model = small_profile()
    spec = StrategySpec("ddp", 2, microbatch=1)
    peak = predict_peak(model, spec).highest.total
    fullest = dataclasses.replace(memory(0, 0), capacity_bytes=peak - 1, verdict="does not fit")
    others = dataclasses.replace(
        memory(1, 1), capacity_bytes=3 * peak, free_bytes=1000, verdict="does not fit"
    )
    alone = make_memory(Prediction("traced", (fullest,)))
    both = make_memory(Prediction("traced", (fullest, others)))
    assert alone is not None
    assert both is not None
    assert suggested(spec, alone, Known(model)) != ()
    assert suggested(spec, both, Known(model)) == ()


def test_what_compiling_changes_is_not_known() -> None:
    """And said."""
    known = Known(small_profile(small_trace(8)))
    for compiled in (False, True):
        asked = {"steps": 1, "microbatch": 8, "compile": compiled}
        made = preview(1, 2, known=known, training=asked, distributed={"strategy": "ddp"})
        assert any("training.compile" in note for note in made.notes) is compiled


def test_whole_gradients_of_accumulation_are_said() -> None:
    """Under sharding with several microbatches a step; not with one, nor where nothing is sharded."""

    def notes(strategy: str, accumulation: int) -> list[str]:
        made = preview(
            1,
            2,
            known=Known(small_profile()),
            training={"steps": 1, "accumulation": accumulation, "microbatch": 1},
            distributed={"strategy": strategy},
        )
        return [note for note in made.notes if "gradients stay unsharded" in note]

    assert len(notes("fsdp", 2)) == 1
    assert notes("fsdp", 1) == notes("ddp", 2) == []


def test_notes_on_units_are_for_runs_that_have_them() -> None:
    """FSDP's units under fsdp, blocks where they are to be computed again."""

    def notes(strategy: str, *, again: bool) -> set[str]:
        traced = dataclasses.replace(profile(), notes=(ONE_UNIT, NO_BLOCKS, "else"))
        training = {"steps": 1, "activation_checkpointing": again}
        made = preview(1, 2, known=Known(traced), training=training, distributed={"strategy": strategy})
        return {ONE_UNIT, NO_BLOCKS, "else"} & set(made.notes)

    assert notes("ddp", again=False) == {"else"}
    assert notes("fsdp", again=False) == {ONE_UNIT, "else"}
    assert notes("ddp", again=True) == {NO_BLOCKS, "else"}
