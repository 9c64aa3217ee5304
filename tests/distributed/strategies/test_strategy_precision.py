"""The same config means the same arithmetic under every strategy, in loops written by hand, on real ranks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from support.ranks.measured_ranks import Job, measure
from support.ranks.precision_ranks import STEPS
from support.system.deepspeed_python import ABSENT, deepspeed_python

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

PRECISIONS = ("fp32", "bf16", "fp16")
DTYPES = {"fp32": "torch.float32", "bf16": "torch.bfloat16", "fp16": "torch.float16"}
STRATEGIES: dict[str, Any] = {
    "single": {"strategy": "single"},
    "ddp": {"strategy": "ddp"},
    "fsdp": {"strategy": "fsdp", "fsdp": {"wrap": "size", "min_params": 1}},
    "hsdp": {"strategy": "hsdp", "fsdp": {"wrap": "size", "min_params": 1}, "hsdp": {"shard": 1}},
}
ROUNDED = ("fsdp", "hsdp")
"""Those that gather 16-bit weights, also for norms and embeddings."""
STAGES = (2, 3)
"""Stage 1 differs from 2 only in what is sent when."""
CALM: Job = {"factor": 1.0, "lr": 0.1, "clip": True, "autocast": True}
WILD: Job = {"factor": 20.0, "lr": 1e-3, "clip": True, "autocast": True}
"""Overflows at the first scales of fp16."""


def jobs_of(configs: dict[str, Any], folder: Path) -> dict[str, Job]:
    """Every strategy alone in every precision; its overflows; and on two ranks."""
    jobs: dict[str, Job] = {}
    for name, config in configs.items():
        one = {"world_size": 1, "config": config}
        for precision in PRECISIONS:
            jobs[f"{name} {precision}"] = {**CALM, **one, "precision": precision}
        jobs[f"{name} wild"] = {**WILD, **one, "precision": "fp16", "folder": str(folder / f"{name} wild")}
        jobs[f"{name} unclipped"] = {**WILD, **one, "precision": "fp16", "clip": False}
        jobs[f"{name} plain"] = {**CALM, **one, "precision": "bf16", "autocast": False}
        jobs[f"{name} normed"] = {**CALM, **one, "precision": "bf16", "normed": True, "clip": False}
        if name not in ("single", "none"):
            jobs[f"{name} two"] = {**WILD, "world_size": 2, "config": config, "precision": "fp16"}
    return jobs


def results(jobs: dict[str, Job], python: str | None = None) -> dict[str, list[Any]]:
    done = measure("support.ranks.precision_ranks:body", list(jobs.values()), python=python or sys.executable)
    return dict(zip(jobs, done, strict=True))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Of torch's own strategies; `none` is a loop with torch alone."""
    folder = tmp_path_factory.mktemp("checkpoints")
    reference = {k: v for k, v in jobs_of({"none": None}, folder).items() if not k.endswith("plain")}
    jobs = {**reference, **jobs_of(STRATEGIES, folder)}
    for name in ROUNDED:
        config = {**STRATEGIES[name], "fsdp": {**STRATEGIES[name]["fsdp"], "param_dtype": "fp32"}}
        jobs[f"{name} whole normed"] = {**jobs[f"{name} normed"], "config": config}
    return results(jobs)


@pytest.fixture(scope="module")
def deepspeed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    configs = {
        f"zero{stage}": {"strategy": "deepspeed", "deepspeed": {"zero_stage": stage}} for stage in STAGES
    }
    jobs = jobs_of(configs, tmp_path_factory.mktemp("checkpoints"))
    offload = {"strategy": "deepspeed", "deepspeed": {"zero_stage": 2, "offload_optimizer": True}}
    jobs["offload wild"] = {**WILD, "world_size": 1, "config": offload, "precision": "fp16"}
    return results(jobs, deepspeed_python())


@pytest.mark.parametrize("precision", [*PRECISIONS, "wild", "unclipped"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_loop_is_that_of_torch_to_the_last_digit(
    found: dict[str, list[Any]], strategy: str, precision: str
) -> None:
    """With torch's autocast, GradScaler and clipping in one process: losses, norms, scales and weights."""
    (ours,), (torchs,) = found[f"{strategy} {precision}"], found[f"none {precision}"]
    assert (ours["stepped"], ours["scales"]) == (torchs["stepped"], torchs["scales"])
    # clipping and loss scale are one factor here, and two in torch
    rel = 1e-6 if precision == "wild" else 0.0
    for what in ("losses", "weights"):
        assert ours[what] == pytest.approx(torchs[what], rel=rel, abs=rel / 10), what
    assert ours["norms"] == pytest.approx(torchs["norms"], rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_precision_is_not_ignored(found: dict[str, list[Any]], strategy: str) -> None:
    """Layers compute in it, also if the loop has no autocast of its own; the model returns fp32 then."""
    for precision in PRECISIONS:
        assert found[f"{strategy} {precision}"][0]["seen"] == [DTYPES[precision]] * 2
    plain, within = found[f"{strategy} plain"][0], found[f"{strategy} bf16"][0]
    assert plain["seen"] == ["torch.bfloat16", "torch.float32"]
    assert plain["losses"] == within["losses"]
    assert plain["losses"] != found[f"{strategy} fp32"][0]["losses"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_norms_and_embeddings_see_rounded_weights_where_they_are_sent_so(
    found: dict[str, list[Any]], strategy: str
) -> None:
    """bf16 with a LayerNorm and an embedding: FSDP differs from the second step on, by less than 1 % of the
    loss; with weights gathered in fp32 it begins like torch. The others are torch to the last digit.
    docs/library.md says the same.
    """
    (ours,), (torchs,) = found[f"{strategy} normed"], found["none normed"]
    if strategy in ROUNDED:
        (whole,) = found[f"{strategy} whole normed"]
        assert ours["losses"][1] != torchs["losses"][1] == whole["losses"][1]
        assert ours["losses"] == pytest.approx(torchs["losses"], rel=0.01)
        assert whole["losses"] == pytest.approx(torchs["losses"], rel=0.01)
    else:
        assert (ours["losses"], ours["weights"]) == (torchs["losses"], torchs["weights"])


@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "hsdp"])
def test_ranks_leave_out_the_same_steps(found: dict[str, list[Any]], strategy: str) -> None:
    """fp16 on two ranks: overflows, scales and losses are those of ddp."""
    ddp = found["ddp two"][0]
    for rank in found[f"{strategy} two"]:
        assert (rank["stepped"], rank["scales"]) == (ddp["stepped"], ddp["scales"])
        assert rank["losses"] == pytest.approx(ddp["losses"], rel=1e-5)
    assert ddp["stepped"][0] is False
    assert ddp["stepped"].count(True) >= STEPS // 2


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_checkpoint_has_the_loss_scale(found: dict[str, list[Any]], strategy: str) -> None:
    (wild,) = found[f"{strategy} wild"]
    assert wild["restored"] == wild["scales"][-1] < 2.0**16


@pytest.mark.skipif(deepspeed_python() is None, reason=ABSENT)
@pytest.mark.parametrize("stage", STAGES)
def test_fp16_under_deepspeed_is_that_of_torch(
    found: dict[str, list[Any]], deepspeed: dict[str, list[Any]], stage: int
) -> None:
    """Alone to the last digits of fp32, and on two ranks the same steps."""
    for precision in ("fp32", "fp16", "wild", "unclipped"):
        (ours,), (torchs,) = deepspeed[f"zero{stage} {precision}"], found[f"none {precision}"]
        assert (ours["stepped"], ours["scales"]) == (torchs["stepped"], torchs["scales"]), precision
        assert ours["losses"] == pytest.approx(torchs["losses"], rel=1e-5), precision
        assert ours["norms"] == pytest.approx(torchs["norms"], rel=1e-5, nan_ok=True), precision
    (wild,) = deepspeed[f"zero{stage} wild"]
    assert wild["restored"] == wild["scales"][-1]
    ddp = found["ddp two"][0]
    for rank in deepspeed[f"zero{stage} two"]:
        assert (rank["stepped"], rank["scales"]) == (ddp["stepped"], ddp["scales"])
        assert rank["losses"] == pytest.approx(ddp["losses"], rel=1e-5)


@pytest.mark.skipif(deepspeed_python() is None, reason=ABSENT)
def test_deepspeed_follows_the_others_in_bf16_and_offloaded(
    found: dict[str, list[Any]], deepspeed: dict[str, list[Any]]
) -> None:
    """In bf16 its engine rounds weights and gradients; outside of autocast it returns fp32, too."""
    for stage in STAGES:
        (ours,), (torchs,) = deepspeed[f"zero{stage} plain"], found["none bf16"]
        assert ours["seen"] == ["torch.bfloat16", "torch.float32"]
        assert ours["losses"] == pytest.approx(torchs["losses"], rel=0.02)
        (normed,), (torchs,) = deepspeed[f"zero{stage} normed"], found["none normed"]
        assert normed["losses"] == pytest.approx(torchs["losses"], rel=0.02)
    (offload,), (wild,) = deepspeed["offload wild"], found["none wild"]
    assert offload["stepped"] == wild["stepped"]
    assert offload["losses"] == pytest.approx(wild["losses"], rel=1e-5)


@pytest.mark.parametrize("world_size", [1, 2])
def test_an_optimizer_made_before_the_model_was_sharded_trains_it(world_size: int) -> None:
    """prepare_optimizer gives it the new parameters; unprepared, with state or of another model it fails."""
    job = {"world_size": world_size, "config": STRATEGIES["fsdp"]}
    (ranks,) = measure("support.ranks.precision_ranks:replaced", [job])
    for rank in ranks:
        assert rank["trained"] > 0.9
        assert rank["lr"] == 0.25
        assert "made before the model was wrapped" in rank["step"]
        assert "give it to strategy.prepare_optimizer" in rank["step"]
        assert "has none of the model's parameters" in rank["foreign"]
        assert "has taken steps before wrap_model" in rank["momentum"]
