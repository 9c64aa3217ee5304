"""Options of built-in recipes: each recipe's own, and what of them does not go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.values.run_files import load, only_problem
from torchdeck.config.documentation import explain, facts, reference
from torchdeck.config.keys import all_keys, recipe_keys
from torchdeck.config.schema import BUILTIN_RECIPES


def run_of(recipe: str, *lines: str) -> str:
    return "\n".join([f'[run]\nrecipe = "{recipe}"\n[training]\nsteps = 5', *lines]) + "\n"


@pytest.mark.parametrize("recipe", list(BUILTIN_RECIPES))
def test_every_option_is_written_out(recipe: str, tmp_path: Path) -> None:
    """A run of two lines has all options of its recipe, and none of another's."""
    config = load(tmp_path, run_of(recipe))
    model, data = BUILTIN_RECIPES[recipe]
    assert set(config.model) == set(model.model_fields)
    assert set(config.data) == set(data.model_fields)
    assert config.data["workers"] == 0


@pytest.mark.parametrize(
    ("recipe", "table", "path", "wrong"),
    [
        ("byte-finetune", "[model]\nheads = 3", "model.heads", "do not divide width = 128"),
        ("bdh", "[model]\nneurons = 1020", "model.neurons", "1020 neurons are not pairs for 4 heads"),
        ("bdh", "[model]\nvocabulary = 100", "model.vocabulary", "fewer than the 256 values of a byte"),
        ("bdh", "[data]\nmax_bytes = 100", "data.max_bytes", "less than one sample"),
        (
            "byte-gpt",
            "[data]\ntokens = 'a.bin'\nsource = 'b'",
            "data.source",
            "with data.tokens no text is read",
        ),
        (
            "byte-gpt",
            "[data]\ntokens = 'a.bin'\nmax_bytes = 999",
            "data.max_bytes",
            "with data.tokens no text is read",
        ),
        ("byte-gpt", "[data]\ntoken_dtype = 'uint8'", "data.token_dtype", "not set"),
        ("byte-gpt", "[data]\nworkers = -1", "data.workers", "out of range"),
        ("byte-gpt", "[model]\nneurons = 4", "model.neurons", "unknown key"),
        ("digits", "[model]\nwidth = 30", "model.width", "30"),
        ("digits", "[model]\nlayers = 2", "model.layers", "unknown key"),
        ("digits", "[data]\naugmentation = 'wild'", "data.augmentation", "not one of the choices"),
        ("image-folder", "[model]\nwidth = 48", "model.width", "48"),
        ("image-folder", "[model]\nnetwork = 'vgg'", "model.network", "not one of the choices"),
        ("hf-causal-lm", "[model]\nmethod = 'full'\nrank = 8", "model.rank", "it is of LoRA"),
        ("hf-causal-lm", "[model]\nmethod = 'all'", "model.method", "not one of the choices"),
    ],
)
def test_options_that_do_not_go_together(
    recipe: str, table: str, path: str, wrong: str, tmp_path: Path
) -> None:
    """Each is found at its key, and nothing else is."""
    problem = only_problem(tmp_path, run_of(recipe, table))
    assert problem.path == path
    assert wrong in problem.wrong


@pytest.mark.parametrize(
    "table", ["[model]\nheads = 3\nneurons = 12", "[data]\ntokens = 'a.npy'\n[model]\nvocabulary = 100"]
)
def test_options_that_do(table: str, tmp_path: Path) -> None:
    """Heads need not divide a Dragon Hatchling's width, and tokens need not be bytes."""
    load(tmp_path, run_of("bdh", table))


def test_evaluation_needs_held_out_data(tmp_path: Path) -> None:
    """Of any built-in recipe."""
    text = run_of("digits", "eval_every = 2", "[data]", "heldout = 0")
    assert only_problem(tmp_path, text).path == "training.eval_every"


def test_advice_is_of_the_recipe_that_runs(tmp_path: Path) -> None:
    """An unknown key is told the keys of this recipe, and a wrong value what is right in it."""
    assert "model.dropout" in only_problem(tmp_path, run_of("digits", "[model]\ndropuot = 0.5")).right
    names = only_problem(tmp_path, run_of("digits", "[model]\nxyzzy = 1")).right
    assert names.endswith("[model]: width, dropout, init_from, init_names, init_new")
    assert "multiple of 4" in only_problem(tmp_path, run_of("digits", "[model]\nwidth = 'a'")).right


def test_paths_of_options_are_absolute(tmp_path: Path) -> None:
    """Those of the recipe that runs, but for words."""
    config = load(tmp_path, run_of("byte-finetune", "[model]\ninit_from = 'start'"))
    assert config.model["init_from"] == str(tmp_path / "start")
    assert config.data["source"] == "stdlib"
    own = load(tmp_path, run_of("./train.py", "[model]\ninit_from = 'start'\nsource = 'as it is'"))
    assert own.model == {"init_from": str(tmp_path / "start"), "source": "as it is"}
    tokens = load(tmp_path, run_of("bdh", "[data]\ntokens = '../t.bin'")).data["tokens"]
    assert tokens == str(tmp_path.parent / "t.bin")


def test_an_option_of_several_recipes_is_one_key() -> None:
    """It says of which; each recipe describes its own, and the reference has a table for each."""
    assert all_keys()[("model", "width")].recipes == (
        "byte-gpt",
        "bdh",
        "digits",
        "byte-finetune",
        "image-folder",
    )
    assert facts("model.neurons")["recipes"] == ["bdh"]
    assert 'run.recipe = "byte-gpt" or "bdh"' in explain("data.tokens")
    defaults = {key.path[-1]: key.default for key in recipe_keys("digits", ("data",))}
    assert defaults["heldout"] == 0.2
    text = reference()
    assert all(
        f"## [{table}] of {recipe}" in text for recipe in BUILTIN_RECIPES for table in ("model", "data")
    )
