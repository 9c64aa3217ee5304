"""Room on the disk, for the run and for its checkpoints."""

import pytest

from support.system.small_disk import mounted
from support.values.checked_config import CheckedConfig, assert_refused
from torchdeck.config.loader import config_from_dict
from torchdeck.distributed.recipe_loading import load_recipe
from torchdeck.launching.preflight.disk_space import Room, byte_gpt_parameters, check_free


def test_a_full_disk_is_refused(checked: CheckedConfig) -> None:
    """Less is free than the run would stop at."""
    assert_refused(checked.script(limits={"min_free_disk": 2**60})["disk"], "min_free_disk", "make room")


@pytest.mark.root
def test_a_disk_without_inodes_is_refused_and_called_so(checked: CheckedConfig) -> None:
    """It has room for bytes, and a run makes files."""
    checked.home.mkdir(mode=0o700)
    with mounted(checked.home, "size=64m,nr_inodes=400,mode=700"):
        assert_refused(checked.script()["disk"], "inodes are left", "room for bytes", "small files")


def test_inodes_of_a_node_count_as_it_says() -> None:
    """One that does not say, or has no such limit, is looked at for bytes alone."""
    asked = config_from_dict({"run": {"recipe": "byte-gpt"}, "training": {"steps": 1}}, "/")
    assert check_free(asked, Room("/d", 2**50, 0, inodes=0), "a").what == (
        "no inodes are left at /d: the disk has room for bytes, not for files"
    )
    assert check_free(asked, Room("/d", 2**50, 0, inodes=10**6), "a").status == "ok"
    assert check_free(asked, Room("/d", 2**50, 0), "a").status == "ok"


def test_room_for_checkpoints_counts(checked: CheckedConfig) -> None:
    """A model whose checkpoint does not fit is refused before it trains."""
    model = {"layers": 1000, "width": 65536, "heads": 1}
    assert_refused(checked.recipe(model=model)["disk"], "a checkpoint of about", "TiB")


def test_parameters_are_those_of_the_model() -> None:
    """The estimate is the number of the model's own parameters."""
    asked = config_from_dict({"run": {"recipe": "byte-gpt"}, "training": {"steps": 1}}, "/")
    setup = pytest.importorskip("torchdeck.distributed.trainer.setup")
    model = setup.build_model(load_recipe("byte-gpt"), dict(asked.model))
    assert byte_gpt_parameters(asked) == sum(parameter.numel() for parameter in model.parameters())
