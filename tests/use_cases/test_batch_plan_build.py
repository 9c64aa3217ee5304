"""A batch plan built for a run file that may be in no file, by a process that can be ended."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from support.values.run_files import load
from torchdeck.config.schema import RunConfig
from torchdeck.data.batch_plan import load_batch_plan
from torchdeck.use_cases.batch_plans.in_process import (
    BuildError,
    PlanOptions,
    build_in_process,
    by_hand,
    can_be_built,
    usual_options,
)

pytestmark = pytest.mark.processes

BUDGET = ("--token-budget", "4096")
RUN = """\
[run]
recipe = "byte-finetune"
[model]
context = 64
[data]
source = "data.txt"
heldout = 0.0
[training]
epochs = 1.5
batch_plan = "plans/one"
"""


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    (tmp_path / "data.txt").write_text("".join(f"{'word ' * (1 + n % 9)}\n" for n in range(50)))
    return load(tmp_path, RUN)


def nothing(_text: str) -> None:
    """Progress that no one wants to hear of."""


def test_the_plan_is_of_the_runs_data_and_replaces_an_older_one(config: RunConfig, tmp_path: Path) -> None:
    assert can_be_built(config)
    for options in (usual_options(config), PlanOptions(128, pack=False)):
        build_in_process(config, options, nothing)
        plan = load_batch_plan(tmp_path / "plans" / "one", verify=True)
        assert (plan.size, plan.epochs) == (50, 2)
    assert sorted(path.name for path in (tmp_path / "plans").iterdir()) == ["one"]


def test_what_is_refused_is_said(config: RunConfig, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="token budget 2"):
        build_in_process(config, PlanOptions(2), nothing)
    (tmp_path / "data.txt").write_text("")
    with pytest.raises(BuildError, match="holds no samples"):
        build_in_process(config, usual_options(config), nothing)
    (tmp_path / "data.txt").unlink()
    with pytest.raises(BuildError, match=r"data\.txt"):
        build_in_process(config, usual_options(config), nothing)
    assert not (tmp_path / "plans").exists()


def test_progress_can_end_it(config: RunConfig, tmp_path: Path) -> None:
    def stop(_text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_in_process(config, usual_options(config), stop)
    assert not (tmp_path / "plans").exists() or list((tmp_path / "plans").iterdir()) == []


def test_the_command_that_does_the_same() -> None:
    words = shlex.split(by_hand("my runs/run.toml", PlanOptions(4096)).replace("\\\n", " "))
    assert words == ["torchdeck", "batchplan", "build", "--run", "my runs/run.toml", "--pack", *BUDGET]


def test_other_recipes_have_lengths_that_are_not_known_here(tmp_path: Path) -> None:
    assert not can_be_built(load(tmp_path, RUN.replace("byte-finetune", "byte-gpt")))
