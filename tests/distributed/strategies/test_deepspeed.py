"""DeepSpeed under our trainer, on real ranks: the same training, and checkpoints that all strategies share.

All trainings and copies are one list of jobs for one process that imports DeepSpeed once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from support.deepspeed.deepspeed_jobs import run_jobs, saved_tensors
from support.ranks.measured_ranks import Job
from support.system.deepspeed_python import ABSENT, deepspeed_python
from support.training.equivalence import REFERENCE

pytestmark = [
    pytest.mark.timeout(480),  # the first one waits for all jobs of the ranks
    pytest.mark.processes,
    pytest.mark.skipif(deepspeed_python() is None, reason=ABSENT),
]

REL = 1e-4
HALF, END = 9, 18
STAGES = (1, 2, 3)
STATS_EVERY = 10
SHORT = {"steps": 4}
VARIANTS: dict[str, Job] = {
    "offload": {"deepspeed": {"zero_stage": 2, "offload_optimizer": True}},
    "offload-all": {"deepspeed": {"zero_stage": 3, "offload_optimizer": True, "offload_parameters": True}},
    "small-buckets": {"deepspeed": {"zero_stage": 2, "bucket_size_mb": 0.0005}},
    "recomputed": {"deepspeed": {"zero_stage": 3}, "training": {"activation_checkpointing": True}},
}
COPIES: dict[str, Job] = {
    "zero1-of-3": {"strategy": "deepspeed", "world_size": 3, "deepspeed": {"zero_stage": 1}},
    "zero3-of-4": {"strategy": "deepspeed", "world_size": 4, "deepspeed": {"zero_stage": 3}},
    "zero2-alone": {"strategy": "deepspeed", "world_size": 1, "deepspeed": {"zero_stage": 2}},
    "ddp": {"strategy": "ddp", "world_size": 2},
}
"""Of the checkpoint that ZeRO-2 on two ranks saved; `zero3-of-ddp` of what ddp made of it."""
MORE = ("offload", "recomputed", "zero1-of-3", "zero2-alone")
"""Of variants and copies, those that only a soak tries."""


def tried(names: Iterable[str]) -> list[Any]:
    """As parameters of a test."""
    return [pytest.param(name, marks=[pytest.mark.soak] if name in MORE else []) for name in names]


@dataclass(frozen=True)
class Done:
    """What the jobs returned, by name, and where they saved."""

    results: dict[str, Any]
    folder: Path

    def saved(self, name: str, step: int | None = None) -> dict[str, torch.Tensor]:
        """Tensors of a checkpoint."""
        folder = self.folder / name
        return saved_tensors(folder if step is None else folder / "checkpoints" / f"step_{step:08}")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Done:
    """Every job of this file; those that load stand after those that save."""
    left_out = () if request.config.getoption("--soak") else MORE
    folder = tmp_path_factory.mktemp("deepspeed")
    jobs: dict[str, Job] = {"reference": {**REFERENCE, "stats_every": STATS_EVERY}}
    for stage in STAGES:
        zero = _zero({"deepspeed": {"zero_stage": stage}, "stats_every": STATS_EVERY})
        name = f"zero{stage}"
        saved = folder / name / "checkpoints" / f"step_{HALF:08}"
        jobs[name] = {**zero, "folder": str(folder / name), "every": HALF}
        jobs[f"resumed{stage}"] = {
            **zero, "folder": str(folder / f"resumed{stage}"), "every": HALF, "resume": str(saved),
        }  # fmt: skip
    jobs["short"] = {**REFERENCE, "training": SHORT, "stats_every": 4}
    for name, job in VARIANTS.items():
        jobs[name] = _zero({**job, "training": SHORT | job.get("training", {}), "stats_every": 4})
    bf16 = {"training": SHORT | {"precision": "bf16"}}
    jobs["bf16"] = _zero({"deepspeed": {"zero_stage": 2}, **bf16})
    jobs["bf16-ddp"] = {"strategy": "ddp", "world_size": 2, "accumulation": 2, **bf16}
    fp16 = {"training": SHORT | {"precision": "fp16"}}
    jobs["fp16"] = _zero({"deepspeed": {"zero_stage": 3}, **fp16})
    jobs["fp16-ddp"] = {"strategy": "ddp", "world_size": 2, "accumulation": 2, **fp16}
    for name, job in COPIES.items():
        source = folder / "zero2" / "checkpoints" / f"step_{HALF:08}"
        jobs[name] = {**job, "do": "copy", "from": str(source), "to": str(folder / name)}
    zero3 = {"do": "copy", "strategy": "deepspeed", "world_size": 2, "deepspeed": {"zero_stage": 3}}
    jobs["zero3-of-ddp"] = {**zero3, "from": str(folder / "ddp"), "to": str(folder / "zero3-of-ddp")}
    frozen = {"do": "copy", "world_size": 2, "frozen": True}
    jobs["frozen"] = {**frozen, "strategy": "ddp", "seed": 5, "to": str(folder / "frozen")}
    for stage in (2, 3):
        jobs[f"frozen{stage}"] = {
            **frozen, "strategy": "deepspeed", "deepspeed": {"zero_stage": stage},
            "from": str(folder / "frozen"), "to": str(folder / f"frozen{stage}"),
        }  # fmt: skip
    jobs["unstepped"] = {**zero3, "to": str(folder / "unstepped")}
    jobs["of-unstepped"] = {
        **zero3, "world_size": 1, "from": str(folder / "unstepped"), "to": str(folder / "of-unstepped"),
    }  # fmt: skip
    jobs["shapes"] = {
        "do": "refused", "world_size": 2, "differ": "shapes", "config": {"strategy": "deepspeed"},
    }  # fmt: skip
    jobs["unpickle"] = {"do": "unpickle", "world_size": 2}
    jobs = {name: job for name, job in jobs.items() if name not in left_out}
    return Done(dict(zip(jobs, run_jobs(list(jobs.values())), strict=True)), folder)


def _zero(job: Job) -> Job:
    return {"strategy": "deepspeed", "world_size": 2, "accumulation": 2, **job}


@pytest.mark.parametrize("stage", STAGES)
def test_losses_and_norms_are_those_of_one_process(done: Done, stage: int) -> None:
    """Twenty steps in fp32 with accumulation, clipped and not: our weights, scale and clipping, once each."""
    (reference,) = done.results["reference"]
    for ours in done.results[f"zero{stage}"]:
        assert len(ours["losses"]) == 20
        assert ours["losses"] == pytest.approx(reference["losses"], rel=REL)
        assert ours["norms"] == pytest.approx(reference["norms"], rel=REL)


@pytest.mark.parametrize("variant", tried(VARIANTS))
def test_options_change_nothing_in_the_training(done: Done, variant: str) -> None:
    """Offload, buckets of a few elements, blocks computed again."""
    (reference,) = done.results["reference"]
    ours = done.results[variant][0]
    assert ours["losses"] == pytest.approx(reference["losses"][:4], rel=REL)
    assert ours["norms"] == pytest.approx(reference["norms"][:4], rel=REL)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        *((f"zero{stage}", "reference") for stage in STAGES),
        *(pytest.param(*each.values, "short", marks=each.marks) for each in tried(VARIANTS)),
    ],
)
def test_statistics_are_those_of_whole_tensors(done: Done, name: str, reference: str) -> None:
    """Of every gradient and weight, though they lie in pieces outside of the model's parameters."""
    wanted = done.results[reference][0]["statistics"]
    assert {"grad_norm/blocks.0.0.weight", "weight_std/head.bias"} <= wanted.keys()
    for ours in done.results[name]:
        assert ours["statistics"] == pytest.approx(wanted, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("stage", STAGES)
def test_resume_is_bit_exact(done: Done, stage: int) -> None:
    """Losses and norms after it, weights and optimizer state at the end."""
    whole, resumed = done.results[f"zero{stage}"][0], done.results[f"resumed{stage}"][0]
    assert resumed["losses"] == whole["losses"][HALF:]
    assert resumed["norms"] == whole["norms"][HALF:]
    _same(done.saved(f"zero{stage}", END), done.saved(f"resumed{stage}", END))


@pytest.mark.parametrize("copy", tried([*COPIES, "zero3-of-ddp"]))
def test_state_is_the_same_at_another_size_and_under_another_strategy(done: Done, copy: str) -> None:
    """Bit for bit, names, shapes and types too; the learning rate comes along."""
    _same(done.saved("zero2", HALF), done.saved(copy))
    assert all(rate == pytest.approx(0.02) for rate in done.results[copy][0]["lr"])


@pytest.mark.parametrize("stage", [2, 3])
def test_weights_that_are_not_trained_are_kept_too(done: Done, stage: int) -> None:
    """No partition of the optimizer holds them."""
    saved = done.saved("frozen")
    assert "model.embedding.weight" in saved
    _same(saved, done.saved(f"frozen{stage}"))


def test_a_checkpoint_before_the_first_step_holds_no_optimizer_state(done: Done) -> None:
    """And can be loaded."""
    saved = done.saved("unstepped")
    assert all(name.startswith("model.") for name in saved)
    _same(saved, done.saved("of-unstepped"))


def test_a_loss_that_is_not_finite_stops_the_run() -> None:
    """With the sentence that every strategy has for it, though DeepSpeed would leave such steps out."""
    job = _zero({"deepspeed": {"zero_stage": 2}, "training": {"steps": 5, "lr": 1e38, "clip": None}})
    with pytest.raises(RuntimeError, match=r"RecipeError: the .* (inf|nan|not finite).*lower the learning"):
        run_jobs([job])


def test_models_of_other_shapes_are_refused_by_name(done: Done) -> None:
    """As under every strategy, before DeepSpeed sends the first rank's weights."""
    for said in done.results["shapes"]:
        assert "on rank 0 and [[4, 7]" in said


def test_no_rank_unpickles_what_another_sends(done: Done) -> None:
    """All trainings, saves and loads of this file run while object collectives fail, DeepSpeed's own too."""
    assert all("an object collective was called" in said for said in done.results["unpickle"])
    assert {"zero1", "zero2", "zero3"} <= done.results.keys()


def test_bf16_follows_ddp(done: Done) -> None:
    """As closely as eight bits allow: DeepSpeed computes in bf16 throughout, autocast not everywhere."""
    ours, ddp = done.results["bf16"][0], done.results["bf16-ddp"][0]
    assert ours["losses"] == pytest.approx(ddp["losses"], rel=0.01)
    assert ours["norms"] == pytest.approx(ddp["norms"], rel=0.02)


def test_fp16_is_that_of_ddp(done: Done) -> None:
    """In the trainer, too: the engine leaves 16 bit and the loss scale to the strategy."""
    ours, ddp = done.results["fp16"][0], done.results["fp16-ddp"][0]
    assert ours["losses"] == pytest.approx(ddp["losses"], rel=REL)
    # None for a step that was left out
    assert [norm or 0.0 for norm in ours["norms"]] == pytest.approx(
        [norm or 0.0 for norm in ddp["norms"]], rel=REL
    )


def test_nothing_of_deepspeeds_is_in_a_checkpoint(done: Done) -> None:
    """No pickles: the files are those of any other strategy."""
    kinds = {
        path.suffix or path.name for path in (done.folder / "zero2/checkpoints").rglob("*") if path.is_file()
    }
    others = {path.suffix or path.name for path in (done.folder / "ddp").rglob("*") if path.is_file()}
    assert kinds == others


def _same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert ours
    for name, tensor in ours.items():
        assert tensor.dtype == theirs[name].dtype, name
        assert torch.equal(tensor, theirs[name]), name
