"""A start says beforehand whether a restart of a script would begin from scratch."""

from __future__ import annotations

from typing import Any

import pytest

from support.values.machines import byte_gpt, config, node, plan
from torchdeck.config.schema import RunConfig
from torchdeck.contract.plan.launch_plan import LaunchPlan

RESTARTS = {"max_restarts": 2}


def scratch(made: LaunchPlan) -> list[str]:
    return [warning for warning in made.warnings if "from scratch" in warning]


def asked(run: dict[str, Any] | None = None, **tables: Any) -> RunConfig:
    return config({"script": "/code/train.py", **(run or {})}, launch=RESTARTS, **tables)


def test_one_that_nothing_is_known_of() -> None:
    (warning,) = scratch(plan(asked()))
    assert "run.resume_args" in warning


@pytest.mark.parametrize(
    "made",
    [
        plan(config()),
        plan(byte_gpt(launch=RESTARTS)),
        plan(asked({"resume_args": ["--resume"]})),
    ],
    ids=["no restarts", "a recipe", "resume_args"],
)
def test_others_do_not(made: LaunchPlan) -> None:
    assert scratch(made) == []


def test_on_several_nodes_it_is_the_same() -> None:
    """The nodes agree on a checkpoint."""
    several = {"distributed": {"nodes": ["a", "b"]}}
    assert scratch(plan(asked({"resume_args": ["--resume"]}, **several), node("a"), node("b"))) == []
    (warning,) = scratch(plan(asked(**several), node("a"), node("b")))
    assert "run.resume_args" in warning


def test_the_users_arguments_are_in_the_plan_that_is_executed() -> None:
    """With the checkpoint as the only slot; the plan's JSON of scripts without them stays as it was."""
    made = plan(asked({"resume_args": ["--from=@{checkpoint}", "@{port}"]}))
    assert made.checkpoint.resume_args == ("--from=@{checkpoint}", "@@{port}")
    assert LaunchPlan.from_json(made.document()) == made
    assert not {"resume_args", "resume_by"} & plan(config()).to_json()["checkpoint"].keys()
