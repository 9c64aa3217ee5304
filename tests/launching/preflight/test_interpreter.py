"""What the interpreter of the ranks has, and what a run wants of it."""

from dataclasses import replace

import pytest

from support.values.checked_config import CheckedConfig, assert_refused
from torchdeck.contract.inventory import InterpreterFacts
from torchdeck.launching.facts.interpreter_check import check_interpreter


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
