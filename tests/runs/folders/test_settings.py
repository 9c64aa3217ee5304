"""Settings of runs in a few words."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.made_runs import make_run
from torchdeck.runs.folders.settings import differing, run_settings

RUN_FILE = """\
name = "mine"
[run]
recipe = "byte-gpt"
[training]
lr = 3e-4
steps = 60
betas = [0.9, 0.95]
"""
KEYS = st.sampled_from(["training.lr", "training.steps", "model.width", "other.width"])


def test_overrides_come_last(tmp_path: Path) -> None:
    layout = make_run(tmp_path, (), run_file=RUN_FILE)
    assert run_settings(layout, ("training.lr=1e-3", "run.args=two words", "nonsense")) == {
        "run.recipe": "byte-gpt",
        "training.lr": "0.001",
        "training.steps": "60",
        "training.betas": "0.9 0.95",
        "run.args": "two words",
    }


@pytest.mark.parametrize("text", ["no TOML", "a = " + "[" * 5000, f"a = {'9' * 5000}", ""])
def test_what_cannot_be_read_sets_nothing_or_little(tmp_path: Path, text: str) -> None:
    assert len(run_settings(make_run(tmp_path, (), run_file=text))) <= 1


def test_only_what_differs_is_named_and_briefly() -> None:
    runs = {
        "a": {"training.lr": "0.1", "training.steps": "60", "model.width": "8", "data.width": "4"},
        "b": {"training.lr": "0.2", "training.steps": "60", "model.width": "9", "data.width": "5"},
        "c": {"training.steps": "60", "model.width": "8", "data.width": "4"},
    }
    assert differing(runs) == {
        "a": "lr 0.1, model.width 8, data.width 4",
        "b": "lr 0.2, model.width 9, data.width 5",
        "c": "model.width 8, data.width 4",
    }


@given(st.dictionaries(st.text(max_size=3), st.dictionaries(KEYS, st.sampled_from("12")), max_size=5))
def test_runs_have_the_same_text_if_they_set_the_same(runs: dict[str, dict[str, str]]) -> None:
    found = differing(runs)
    for one, settings in runs.items():
        for other, others in runs.items():
            if dict(settings) == dict(others) and list(settings) == list(others):
                assert found[one] == found[other]
            elif dict(settings) != dict(others):
                assert found[one] != found[other]
