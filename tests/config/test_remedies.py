"""Every problem offers the nearest change that works, if there is one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.config.keys import all_keys
from torchdeck.config.loader import draft_config
from torchdeck.config.problems import ConfigError, Problem
from torchdeck.config.remedies import remedy_of
from torchdeck.config.toml.edit import set_value

BASE = '[run]\nrecipe = "byte-gpt"\n[training]\nsteps = 10\n'


def problems_of(text: str) -> tuple[Problem, ...]:
    try:
        draft_config(Path("/nowhere/run.toml"), text=text, name="run.toml").config()
    except ConfigError as error:
        return error.problems
    return ()


@pytest.mark.parametrize(
    ("added", "label"),
    [
        ('optimizer = "adamv"\n', 'Set optimizer = "adamw"'),
        ("microbatch = 0\n", "Set microbatch = 1"),
        ('microbatch = "16"\n', "Set microbatch = 16"),
        ("microbatch = 8.0\n", "Set microbatch = 8"),
        ('compile = "yes"\n', "Set compile = true"),
        ("lrr = 0.1\n", "Rename to lr"),
        ("epochs = 2\n", "Reset epochs"),
        ("patience = 3\n", "Set eval_every = 100"),
        ("lr = 0\n", "Reset lr"),
        ("[distributed]\nbackend = 'nccl'\ndevices = 'cpu'\n", 'Set backend = "gloo"'),
        ("[distributed]\ndevices = [0, 1]\nnproc = 3\n", "Set nproc = 2"),
        ("[launch]\nmicrobatch = 3\n", "Move to [training]"),
        ("[model]\nwidth = 100\nheads = 3\n", "Set heads = 2"),
    ],
)
def test_the_nearest_that_works(added: str, label: str) -> None:
    text = BASE + added
    (problem,) = problems_of(text)
    remedy = remedy_of(problem, text, problems_of)
    assert remedy is not None
    assert remedy.label == label
    assert problems_of(remedy.apply(text)) == ()


def test_what_cannot_be_solved_by_one_change_offers_none() -> None:
    """Nor is one offered for a text that cannot be read."""
    text = "[training]\nsteps = 3\n"
    missing = next(problem for problem in problems_of(text) if problem.path == "run")
    found = remedy_of(missing, text, problems_of)
    assert found is None or problems_of(found.apply(text)) == ()
    assert remedy_of(missing, "[", problems_of) is None


def test_a_plan_that_is_refused_names_what_to_set() -> None:
    """What only these machines know is not checked again."""
    problem = Problem("distributed.nproc", "", None, "4 ranks need 4 GPUs", 'at most 2, or devices = "cpu"')
    text = BASE + "[distributed]\nnproc = 4\n"
    remedy = remedy_of(problem, text)
    assert remedy is not None
    assert remedy.label == "Set nproc = 2"
    assert "nproc = 2" in remedy.apply(text)


_NAMES = [
    key.path
    for key in all_keys("byte-gpt").values()
    if key.section is None
    and not key.free
    and key.path[:2] != ("cluster", "nodes")
    and key.path[0] != "extends"
]


@given(st.sampled_from(_NAMES), st.sampled_from([-1, 0, 10**12, "x", "12", 2.5, True, [], ["a"]]))
def test_an_offered_change_works(path: tuple[str, ...], value: object) -> None:
    """Whatever is written in whatever key: what is offered leaves fewer problems, and not this one."""
    text = set_value(BASE, path, value)
    before = problems_of(text)
    for problem in before[:2]:
        remedy = remedy_of(problem, text, problems_of)
        if remedy is not None:
            left = problems_of(remedy.apply(text))
            assert len(left) < len(before)
            assert problem.wrong not in [each.wrong for each in left if each.path == problem.path]
