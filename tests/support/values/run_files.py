"""Run files for tests of the config."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchdeck.config.loader import load_config
from torchdeck.config.problems import ConfigError, Problem
from torchdeck.config.schema import RunConfig

MINIMAL = """\
[run]
recipe = "byte-gpt"

[training]
steps = 10
"""


def write(folder: Path, text: str, name: str = "run.toml") -> Path:
    """A run file with `text`."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Path, text: str, *overrides: str) -> RunConfig:
    """The config of a run file with `text`."""
    return load_config(write(folder, text), overrides).config


def problems(folder: Path, text: str, *overrides: str) -> tuple[Problem, ...]:
    """What is wrong with a run file with `text`; there must be something."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text, *overrides)
    assert caught.value.problems
    return caught.value.problems


def only_problem(folder: Path, text: str, *overrides: str) -> Problem:
    """The one thing that is wrong with it."""
    found = problems(folder, text, *overrides)
    assert len(found) == 1, [str(problem) for problem in found]
    return found[0]
