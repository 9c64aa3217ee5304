"""Recipes by name and by file."""

from pathlib import Path

import pytest

from torchdeck.distributed.recipe_loading import BUILT_IN, RecipeError, load_recipe

WHOLE = "def build_model(o): ...\ndef build_data(o, s): ...\ndef loss(m, b): ...\n"


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_recipes_load(name: str) -> None:
    """Every built-in name has all its functions."""
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.blocks is not None


def test_a_file_is_loaded_with_its_neighbours(tmp_path: Path) -> None:
    """A recipe may import a module beside it; what it does not define is None."""
    (tmp_path / "neighbour_of_recipe.py").write_text("WIDTH = 3\n")
    path = tmp_path / "mine.py"
    collate = "def collate(samples): return WIDTH\n"
    path.write_text("from neighbour_of_recipe import WIDTH\n" + WHOLE + collate)
    recipe = load_recipe(str(path))
    assert recipe.collate is not None
    assert recipe.collate([]) == 3
    assert recipe.blocks is None
    assert recipe.options_of_data({"a": 1}, {"b": 2}) == {"b": 2}


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("gone.py", None, "does not exist: check the path of the recipe"),
        ("half.py", WHOLE.replace("def loss", "def lost"), "has no function loss: define loss"),
        ("typo.py", "import no_such_module_of_mine\n" + WHOLE, "fails to import: ModuleNotFoundError"),
        ("broken.py", "def build_model(:\n", "fails to import: SyntaxError"),
        ("odd.py", WHOLE + "blocks = 3\n", "blocks of recipe"),
    ],
)
def test_bad_files_get_a_sentence(name: str, text: str | None, sentence: str, tmp_path: Path) -> None:
    """Missing, unfinished and broken recipe files are told apart."""
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(RecipeError) as refusal:
        load_recipe(str(tmp_path / name))
    assert sentence in str(refusal.value)
    assert name in str(refusal.value)


def test_unknown_names_list_the_known() -> None:
    """A recipe that is neither built in nor a file names those that are."""
    with pytest.raises(RecipeError, match=r'no recipe "byte-gtp": use one of bdh, .*byte-gpt, digits'):
        load_recipe("byte-gtp")
