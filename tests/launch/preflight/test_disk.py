"""Room on the disk, for the run and for its checkpoints."""

import pytest

from support.checked_config import CheckedConfig, assert_refused
from torchdeck.config.loader import config_from_dict
from torchdeck.launch.preflight.room import byte_gpt_parameters


def test_a_full_disk_is_refused(checked: CheckedConfig) -> None:
    """Less is free than the run would stop at."""
    assert_refused(checked.script(limits={"min_free_disk": 2**60})["disk"], "min_free_disk", "make room")


def test_room_for_checkpoints_counts(checked: CheckedConfig) -> None:
    """A model whose checkpoint does not fit is refused before it trains."""
    model = {"layers": 1000, "width": 65536, "heads": 1}
    assert_refused(checked.recipe(model=model)["disk"], "a checkpoint of about", "TiB")


def test_parameters_are_those_of_the_model() -> None:
    """The estimate is the number of the model's own parameters."""
    recipe = pytest.importorskip("torchdeck.recipes.byte_gpt")
    asked = config_from_dict({"run": {"recipe": "byte-gpt"}, "training": {"steps": 1}}, "/")
    model = recipe.build_model(dict(asked.model))
    assert byte_gpt_parameters(asked) == sum(parameter.numel() for parameter in model.parameters())
