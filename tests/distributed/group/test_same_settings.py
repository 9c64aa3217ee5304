"""Ranks that were not started alike find out before the first step."""

from pathlib import Path
from typing import Any

import pytest

from fakes import masked_recipe
from support.ranks.recipe_ranks import recipe_settings, start_ranks, wait_for_ranks

pytestmark = pytest.mark.processes

RECIPE = str(Path(masked_recipe.__file__))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"seed": 8, "lr": 0.5}, "training.seed is 0 on rank 0 and 8 on rank 1"),
        ({"samples": 21}, "data.samples is 20 on rank 0 and 21 on rank 1"),
    ],
)
def test_a_difference_ends_the_run_and_is_named(
    change: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    """Every rank ends with the same sentence in its error.json, the field and both values in it."""
    each = []
    for more in ({}, change):
        training = {"seed": 0, **more}
        data = {"samples": training.pop("samples", 20)}
        each.append(recipe_settings(tmp_path, RECIPE, data=data, **training))
    ranks = wait_for_ranks(start_ranks(each, tmp_path, 2), tmp_path)
    assert ranks.codes == [1, 1]
    for rank in range(2):
        message = ranks.error(rank)["message"]
        assert sentence in message
        assert message.endswith("Start every rank with the same config and seed")
        assert ranks.stdout[rank] == ""
    assert ("training.lr is 0.01 on rank 0 and 0.5 on rank 1" in ranks.error(0)["message"]) == (
        "lr" in change
    )


def test_data_that_differs_in_content_is_named(tmp_path: Path) -> None:
    """As many samples on both ranks, but what the recipe says of them differs."""
    recipe = tmp_path / "own.py"
    says = "\n\ndef fingerprint(options):\n    import os\n    return 'text ' + os.environ['RANK']\n"
    recipe.write_text(Path(RECIPE).read_text() + says)
    settings = recipe_settings(tmp_path, str(recipe), data={"samples": 20})
    ranks = wait_for_ranks(start_ranks(settings, tmp_path, 2), tmp_path)
    assert ranks.codes == [1, 1]
    message = ranks.error(0)["message"]
    assert 'training data.fingerprint is "text 0" on rank 0 and "text 1" on rank 1' in message
