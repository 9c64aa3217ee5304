"""Callbacks in the Hugging Face Trainer that fail; test_resumed_curves.py has whole trainings."""

import json
from pathlib import Path

import pytest

from support.training.inside_scripts import HUGGING_FACE, ScriptRun
from torchdeck.contract.metrics.inside_state import read_inside_state


@pytest.fixture
def script(tmp_path: Path) -> ScriptRun:
    return ScriptRun(tmp_path / "project", tmp_path / "home")


def test_a_trainer_whose_api_changed_trains_without_callbacks(script: ScriptRun) -> None:
    """An attribute that is gone switches the callbacks off, and inside.json says why."""
    program = HUGGING_FACE.replace(
        "class Tokens",
        "import transformers.trainer\n"
        "ours = transformers.trainer.DEFAULT_CALLBACKS[-1]\n"
        "passed = ours.on_step_end\n"
        "ours.on_step_end = lambda s, args, state, control, **k: passed(s, args, object(), control)\n\n\n"
        "class Tokens",
    )
    layout = script.run(script.config(program, "5", "0", "0", ranks=1))
    assert json.loads((script.folder / "log_history.json").read_text())[0] == 5
    files = layout.attempt(1).rank(0)
    state = read_inside_state(files.inside)
    assert state is not None
    assert state.failures == (
        "Hugging Face Trainer, on_step_end: AttributeError: 'object' object has no attribute 'global_step'",
    )
    assert not files.progress.exists()
    shown = script.command.run("runs", "show", layout.root.name).stdout
    assert f"failed on rank 0 and are off; the program is not affected: {state.failures[0]}" in shown
