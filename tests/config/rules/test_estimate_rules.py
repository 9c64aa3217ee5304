"""Contradictions in [estimate], each at its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.values.run_files import MINIMAL, load, only_problem, problems

SCRIPT = "[run]\nscript = 'train.py'\n"


@pytest.mark.parametrize(
    ("table", "path", "wrong"),
    [
        ("layers = 4", "estimate", "size of the model is missing"),
        ("precision = 'bf16'", "estimate", "size of the model is missing"),
        ("parameters = 1.5", "estimate.parameters", "not a whole number"),
        ("parameters = 0", "estimate.parameters", "out of range"),
        ("parameters = '7b'", "estimate.parameters", "text"),
        (
            "config = 'c.json'\narchitecture = 'gpt2'",
            "estimate.architecture",
            "already determines the architecture",
        ),
        ("layers = 2\nwidth = 64\nheads = 5", "estimate.heads", "do not divide width = 64"),
        ("parameters = 7e9\nheads = 32\nkv_heads = 5", "estimate.kv_heads", "cannot share 5"),
        ("parameters = 7e9\nlayer = 2", "estimate.layer", "unknown key"),
    ],
)
def test_contradictions_of_a_script(table: str, path: str, wrong: str, tmp_path: Path) -> None:
    """One problem, where it is."""
    problem = only_problem(tmp_path, f"{SCRIPT}[estimate]\n{table}\n")
    assert problem.path == path
    assert wrong in problem.wrong


def test_a_recipe_says_in_training_how_it_trains(tmp_path: Path) -> None:
    """What [training] has is not said twice."""
    text = "[run]\nrecipe = 'mine.py'\n[training]\nsteps = 1\n[estimate]\nparameters = 7e9\nmicrobatch = 2\n"
    problem = only_problem(tmp_path, text)
    assert problem.path == "estimate.microbatch"
    assert "training.microbatch" in problem.wrong


def test_a_built_in_recipe_is_traced(tmp_path: Path) -> None:
    """Its model is at hand."""
    found = problems(tmp_path, MINIMAL + "\n[estimate]\nparameters = 7e9\n")
    assert [problem.path for problem in found] == ["estimate"]
    assert "traced" in found[0].wrong


def test_a_relative_config_is_seen_from_the_run_file(tmp_path: Path) -> None:
    """As every path is; and 7e9 and 7000000000 are the same."""
    config = load(tmp_path, SCRIPT + "[estimate]\nconfig = 'models/c.json'\nparameters = 7000000000\n")
    assert config.estimate.config == str(tmp_path / "models" / "c.json")
    assert config.estimate.parameters == 7e9
