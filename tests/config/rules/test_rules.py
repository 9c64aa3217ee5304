"""Contradictions are found, each at its key, and nothing else is called one."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.values.run_files import MINIMAL, load, only_problem, problems

SCRIPT = "[run]\nscript = 'train.py'\n"


@pytest.mark.parametrize(
    ("overrides", "path", "wrong"),
    [
        (["training.warmup_steps=11"], "training.warmup_steps", "longer than the training of 10"),
        (["model.heads=3"], "model.heads", "do not divide width = 128"),
        (["data.max_bytes=128"], "data.max_bytes", "less than one sample"),
        (["data.heldout=0", "training.eval_every=5"], "training.eval_every", "no validation data"),
        (["distributed.strategy=single", "distributed.nproc=2"], "distributed.nproc", "one process"),
        (["distributed.strategy=single", 'distributed.nodes=["a", "b"]'], "distributed.nodes", "one process"),
        (["distributed.strategy=single", "distributed.devices=[0, 1]"], "distributed.devices", "one process"),
        (["distributed.devices=[0, 1]", "distributed.nproc=3"],
         "distributed.nproc", "do not fit on 2 devices"),
        (["distributed.devices=[]"], "distributed.devices", "empty"),
        (["distributed.devices=[0, 1, 0]"], "distributed.devices[2]", "listed twice"),
        (["distributed.devices=[0, 1, '']"], "distributed.devices[2]", "not a device"),
        (["distributed.devices=[-1]"], "distributed.devices[0]", "out of range"),
        (['distributed.nodes=["a", "a"]'], "distributed.nodes[1]", "listed twice"),
        (['distributed.nodes=["-oProxyCommand=x"]'], "distributed.nodes[0]", "not a valid name"),
        (["distributed.nodes=[]"], "distributed.nodes", "is not valid"),
        (["distributed.devices=cpu", "distributed.backend=nccl"], "distributed.backend", "nccl needs GPUs"),
        (["distributed.rendezvous.port=0"], "distributed.rendezvous.port", "0 is out of range"),
        (["distributed.rendezvous.port=65536"], "distributed.rendezvous.port", "65536 is out of range"),
        (["distributed.strategy=fsdp", "distributed.ddp.static_graph=true"],
         "distributed.ddp.static_graph", "no effect"),
        (["distributed.fsdp.wrap=size"], "distributed.fsdp.wrap", "no effect"),
        (["distributed.strategy=fsdp", "distributed.fsdp.min_params=5"],
         "distributed.fsdp.min_params", "no effect"),
        (
            ["distributed.ddp.static_graph=true", "distributed.ddp.find_unused_parameters=true"],
            "distributed.ddp.find_unused_parameters",
            "by itself",
        ),
        (["distributed.ddp.comm_hook=powersgd", "training.precision=fp16"],
         "distributed.ddp.comm_hook", "overflow"),
        (["distributed.ddp.powersgd_rank=4"], "distributed.ddp.powersgd_rank", "no effect"),
        (["distributed.ddp.static_graph=true", "training.accumulation=2"],
         "distributed.ddp.static_graph", "bit for bit"),
        (
            ["distributed.strategy=fsdp", "training.precision=fp16", "distributed.fsdp.param_dtype=bf16"],
            "distributed.fsdp.param_dtype",
            "cannot be used with",
        ),
        (["training.balance=tokens"], "training.balance", "there is none"),
        (["training.batch_plan=plan", "training.microbatch=8"], "training.microbatch", "determines"),
        (["training.momentum=0.9"], "training.momentum", 'no effect with training.optimizer = "adamw"'),
        (["training.optimizer=sgd", "training.betas=[0.1, 0.2]"], "training.betas", "no effect"),
        (["training.min_lr_ratio=0.5"], "training.min_lr_ratio", "no effect"),
        (["training.reference_batch=64"], "training.reference_batch", "no effect"),
        (["training.betas=[0.1, 1]"], "training.betas[1]", "out of range"),
        (["training.betas=[0.1]"], "training.betas", "[0.1] is a list"),
        (["training.lr=0"], "training.lr", "out of range"),
        (["training.lr=nan"], "training.lr", "not a finite number"),
        (["checkpoint.keep_best=1"], "checkpoint.keep_best", "no checkpoint will have \"validation_loss\""),
        (["checkpoint.keep_best=1", "checkpoint.best_metric=validation_accuracy", "training.eval_every=3",
          "checkpoint.every=4"], "checkpoint.keep_best", "first meet at step 12, after the last"),
        (["checkpoint.best_is=highest"], "checkpoint.best_is", "no effect with checkpoint.keep_best = 0"),
        (["checkpoint.resume=atuo"], "checkpoint.resume", "neither a known word"),
        (["telemetry.patterns=['(']"], "telemetry.patterns[0]", "not a regular expression"),
        (["telemetry.patterns=['(?P<step>.)']"], "telemetry.patterns[0]", "no named group besides step"),
        (["limits.min_free_disk=lots"], "limits.min_free_disk", "not a size"),
        (["limits.min_free_disk=-1"], "limits.min_free_disk", "out of range"),
        (["run.args=['x']"], "run.args", "takes no arguments"),
        (["run.env.RANK=1"], "run.env.RANK", "set by the launcher"),
        (["run.env.TORCHDECK_RUN_ID=1"], "run.env.TORCHDECK_RUN_ID", "set by the launcher"),
        (["run.env.CUDA_VISIBLE_DEVICES=1"], "run.env.CUDA_VISIBLE_DEVICES", "distributed.devices"),
        (["run.env.'A=B'=1"], "--set", ""),
        (["run.env.1A=1"], "run.env.1A", "not a name"),
        (["run.secrets=['1A']"], "run.secrets[0]", "not a name"),
        (["run.secrets=['RANK']"], "run.secrets[0]", "set by the launcher"),
        (["run.secrets=['A', 'B', 'A']"], "run.secrets[2]", "listed twice"),
        (["run.env.A=x", "run.secrets=['A']"], "run.secrets[0]", "is in [run.env]"),
        (['run.env.A="\\u0000"'], "run.env.A", "NUL"),
        (["run.recipe=byte_gpt"], "run.recipe", "neither a built-in recipe"),
        (["run.recipe=model"], "run.recipe", "neither a built-in recipe"),
        (["name=a/b"], "name", "is not valid"),
        (['name=""'], "name", "is not valid"),
        (['name=" "'], "name", "is not valid"),
        (["training.seed=9223372036854775808"], "training.seed", "out of range"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(tmp_path: Path, overrides: list[str], path: str, wrong: str) -> None:
    """One problem, at the key to change."""
    problem = only_problem(tmp_path, MINIMAL, *overrides)
    assert path in (problem.path, problem.file)
    assert wrong in problem.wrong


@pytest.mark.parametrize(
    "overrides",
    [
        [
            "training.precision=fp16",
            "distributed.devices=cpu",
            "distributed.backend=gloo",
        ],  # tried: it trains
        ["training.warmup_steps=10"],
        ["distributed.strategy=single", "distributed.nproc=1", "distributed.devices=[3]"],
        ["distributed.ddp.bucket_size_mb=25", "distributed.strategy=fsdp"],  # the default, written out
        ["distributed.devices=[0, 1]", "distributed.nproc=1"],
        ["distributed.rendezvous.port=65535"],
        ["checkpoint.resume=./auto"],
        ["run.env.PYTHONPATH=/x"],
        ["distributed.strategy=fsdp", "training.precision=bf16", "distributed.fsdp.reduce_dtype=fp32"],
        ["limits.min_free_disk=0"],
    ],
)
def test_what_goes_together(tmp_path: Path, overrides: list[str]) -> None:
    """Unusual and right."""
    load(tmp_path, MINIMAL, *overrides)


def test_one_kind_of_thing_is_run(tmp_path: Path) -> None:
    """None is a problem, two are a problem at the second."""
    assert only_problem(tmp_path, "name = 'x'\n").wrong == "neither recipe, script nor module is set"
    problem = only_problem(tmp_path, "[run]\nscript = 'x.py'\n\nmodule = 'x'\n")
    assert (problem.path, problem.line) == ("run.module", 4)


def test_one_length_of_training(tmp_path: Path) -> None:
    """Neither steps nor epochs, or both in one file."""
    assert only_problem(tmp_path, "[run]\nrecipe = 'byte-gpt'\n").path == "training"
    assert only_problem(tmp_path, MINIMAL + "epochs = 1\n").path == "training.epochs"


@pytest.mark.parametrize("table", ["model", "data", "training"])
def test_a_script_has_no_recipe_tables(tmp_path: Path, table: str) -> None:
    """What a script cannot read is not silently dropped."""
    assert only_problem(tmp_path, f"{SCRIPT}[{table}]\n").path == table


@pytest.mark.parametrize("module", ["train.py/", "-m", "a b", "1a", "a..b"])
def test_what_is_no_module(tmp_path: Path, module: str) -> None:
    """A module's name is one that python -m could take."""
    assert only_problem(tmp_path, f"[run]\nmodule = '{module}'\n").path == "run.module"


def test_free_tables_hold_what_json_can(tmp_path: Path) -> None:
    """A recipe file's options reach it as JSON: no dates, no infinities."""
    text = "[run]\nrecipe = 'x.py'\n[training]\nsteps = 1\n[model]\na = 1979-05-27\nb = [inf]\n"
    assert [problem.path for problem in problems(tmp_path, text)] == ["model.a", "model.b[0]"]


def test_near_choices_are_named(tmp_path: Path) -> None:
    """A misspelt choice is told the right one first."""
    assert only_problem(tmp_path, MINIMAL, "training.optimizer=adamv").right.startswith('"adamw"')


@pytest.mark.parametrize(
    "key",
    ["checkpoint.every=5", "telemetry.every=2", "distributed.timeout=60", "distributed.ddp.bucket_size_mb=1"],
)
def test_a_script_is_told_what_only_a_recipe_reads(tmp_path: Path, key: str) -> None:
    """A key that would do nothing is a problem, not a silence."""
    problem = only_problem(tmp_path, SCRIPT, key)
    assert key.startswith(problem.path)
    assert "only a recipe" in problem.wrong


def test_a_restart_on_a_hang_needs_leave(tmp_path: Path) -> None:
    """on_hang = "restart" with no restart allowed would only fail the run."""
    assert only_problem(tmp_path, MINIMAL, "launch.on_hang=restart").path == "launch.on_hang"
    config = load(tmp_path, MINIMAL, "launch.on_hang=restart", "launch.max_restarts=1")
    assert config.launch.on_hang == "restart"
