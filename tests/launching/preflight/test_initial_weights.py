"""The weights that a recipe's model starts from."""

from support.values.checked_config import CheckedConfig, assert_refused
from support.values.checkpoint_files import save
from torchdeck.config.loader import config_from_dict
from torchdeck.launching.preflight.remote.shared import needs_sharing

NAME = "initial weights"


def test_initial_weights_must_be_there(checked: CheckedConfig) -> None:
    """A file or a folder with something in it; ranks find out whether it fits."""
    model = {"init_from": "start"}
    start = checked.folder / "start"
    assert_refused(checked.recipe(model=model)[NAME], f"model.init_from {start} does not exist")
    start.mkdir()
    assert_refused(checked.recipe(model=model)[NAME], "is an empty folder")
    (start / "manifest.json").write_text("{}")
    assert checked.recipe(model=model)[NAME].status == "ok"
    assert NAME not in checked.recipe()


def test_a_run_that_resumes_does_not_read_them(checked: CheckedConfig) -> None:
    """From a named checkpoint, or from the newest one in a folder that has one."""
    model = {"init_from": "gone"}
    whole = save(checked.folder / "ck", 40)
    assert NAME not in checked.recipe(model=model, checkpoint={"resume": str(whole)})
    assert NAME not in checked.recipe(model=model, checkpoint={"directory": "ck"})
    assert NAME in checked.recipe(model=model, checkpoint={"directory": "none"})
    assert NAME in checked.recipe(model=model, checkpoint={"directory": "ck", "resume": "never"})


def test_only_weights_that_are_read_must_be_on_every_node(checked: CheckedConfig) -> None:
    """As on this machine: a run that resumes needs no file that may be gone."""
    whole = save(checked.folder / "ck", 40)
    model = {"init_from": "gone"}
    run = {"run": {"recipe": "byte-gpt"}, "training": {"steps": 1}, "model": model}
    assert needs_sharing(config_from_dict(run, checked.folder))
    resumed = {**run, "checkpoint": {"resume": str(whole)}}
    assert not needs_sharing(config_from_dict(resumed, checked.folder))
