"""What the interpreter of the ranks has, and what a run wants of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.values import machines
from support.values.checked_config import CheckedConfig, assert_refused
from torchdeck.agent.environments.make import GET_UV
from torchdeck.contract.inventory import InterpreterFacts, UvFacts
from torchdeck.contract.plan.environment import PlannedEnvironment
from torchdeck.launching.facts.interpreter_check import check_interpreter
from torchdeck.launching.facts.planned_environments import with_environments


@pytest.mark.parametrize(
    ("facts", "recipe", "name", "status", "words"),
    [
        (
            InterpreterFacts("/p", error="there is no such file"),
            False,
            "interpreter",
            "failed",
            "no such file",
        ),
        (InterpreterFacts("/p", "3.9.1", "2.13.0", "2"), False, "interpreter", "failed", "Python 3.10"),
        (InterpreterFacts("/p", "3.11.7", None, "2"), False, "torch", "failed", "/p -m pip install torch"),
        (InterpreterFacts("/p", "3.11.7", "2.9.1", "2"), True, "torch", "failed", "older than 2.10"),
        (InterpreterFacts("/p", "3.11.7", "2.9.1", "2"), False, "torch", "warning", "older than 2.10"),
        (InterpreterFacts("/p", "3.11.7", "2.13.0", None), True, "numpy", "failed", "pip install numpy"),
    ],
)
def test_what_an_interpreter_lacks_is_said(
    facts: InterpreterFacts, recipe: bool, name: str, status: str, words: str
) -> None:
    """Each lack has its sentence and the command that mends it; a script asks for less than a recipe."""
    found = {check.name: check for check in check_interpreter(facts, "localhost", recipe=recipe)}
    assert found[name].status == status
    assert words in str(found[name])


def test_an_environment_that_cannot_be_made_says_why_and_what_to_do() -> None:
    """By the fields of the fact, whatever punctuation its reason has."""
    environment = PlannedEnvironment("ab12", "uv.lock", "/p", is_made=False)
    facts = InterpreterFacts(
        "/p", "3.11.7", error="/opt: uv is not executable", fix="chmod +x", environment=environment
    )
    (found,) = check_interpreter(facts, "node1", recipe=False)
    assert (found.name, found.status, found.fix) == ("environment", "failed", "chmod +x")
    assert found.what == 'run.environment is "uv", and /opt: uv is not executable on this node'


def test_a_node_without_uv_is_told_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==2.10.0\n")
    config = machines.config(run={"script": "train.py", "working_dir": str(tmp_path)})
    facts, _ = with_environments(config, {"n": machines.PYTHON}, {}, UvFacts(None, "linux", {}))
    (found,) = check_interpreter(facts["n"], "n", recipe=False)
    assert (found.what, found.fix) == ('run.environment is "uv", and there is no uv on this node', GET_UV)


def test_a_script_needs_no_numpy(checked: CheckedConfig) -> None:
    """Only our trainer does."""
    checked.interpreter = InterpreterFacts("/p", "3.11.7", "2.13.0", None)
    assert "numpy" not in checked.script()


def test_deepspeed_is_wanted_by_its_strategy_alone(checked: CheckedConfig) -> None:
    """Before the start, with the command that installs it; a script's own affair."""
    deepspeed = {"strategy": "deepspeed"}
    assert_refused(
        checked.recipe(distributed=deepspeed)["deepspeed"],
        "no DeepSpeed in /usr/bin/python3",
        "/usr/bin/python3 -m pip install 'torchdeck[deepspeed]'",
    )
    checked.interpreter = replace(checked.interpreter, deepspeed="0.19.8")
    assert checked.recipe(distributed=deepspeed)["deepspeed"].status == "ok"
    assert "deepspeed" not in checked.recipe()
