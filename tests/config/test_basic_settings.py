"""Finding a setting by words, and examples of each."""

from __future__ import annotations

import tomllib

import pytest

from torchdeck.config.basic_settings import OTHER_NAMES, basic_settings, find_keys
from torchdeck.config.documentation import in_file
from torchdeck.config.keys import all_keys
from torchdeck.config.problems import dotted
from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig


def test_other_names_are_of_keys_that_exist() -> None:
    assert set(OTHER_NAMES) <= {dotted(path) for path in all_keys("byte-gpt")}


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("batch size", "training.microbatch"),
        ("mixed precision", "training.precision"),
        ("gradient accumulation", "training.accumulation"),
        ("world size", "distributed.nodes"),
        ("num workers", "data.workers"),
        ("output dir", "checkpoint.directory"),
    ],
)
def test_words_of_other_trainers_find_a_setting(words: str, name: str) -> None:
    """Those that have them in a name come before those that only mention them."""
    assert find_keys(words)[0].name == name


def test_no_words_find_nothing() -> None:
    assert not find_keys(" ")
    assert not find_keys("zebra")


def test_basic_settings_are_keys_of_the_run_in_order() -> None:
    keys = all_keys("digits").values()
    names = [key.name for key in basic_settings("recipe", keys)]
    assert names.index("training.microbatch") < names.index("training.lr") < names.index("training.steps")
    assert "model.layers" not in names, "it has none"
    assert "training.lr" not in [key.name for key in basic_settings("script", keys)]


def test_the_example_of_every_key_is_a_right_value() -> None:
    """As it is written in a file."""
    for recipe, (model, data) in BUILTIN_RECIPES.items():
        for key in all_keys(recipe).values():
            table = tomllib.loads(in_file(key))
            if key.path[0] == "extends":
                continue
            for nodes in table.get("cluster", {}).get("nodes", []):
                nodes.setdefault("name", "a")
            section = {"model": model, "data": data}.get(key.path[0])
            if section is None:
                RunConfig.model_validate(table)
            elif len(key.path) == 2:
                section.model_validate(table[key.path[0]])
