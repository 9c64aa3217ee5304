"""The checkpoint that a run is to resume from."""

from dataclasses import replace

from support.values.checked_config import CheckedConfig, assert_refused
from support.values.checkpoint_files import save
from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, read_manifest

WEIGHTS = "__0_0.distcp"
"""One of the files that `save` makes."""


def test_a_checkpoint_to_resume_from_is_looked_at(checked: CheckedConfig) -> None:
    """Whole: its step is told. Absent, cut short, incomplete, or its parent: refused with the reason."""
    whole = save(checked.folder / "ck", 40)
    resume = {"resume": str(whole)}
    assert "step 40" in checked.recipe(checkpoint=resume)["resume"].what
    parent = checked.recipe(checkpoint={"resume": str(whole.parent)})["resume"]
    assert_refused(parent, "step_00000040")
    (whole / WEIGHTS).write_bytes(b"w")
    assert_refused(checked.recipe(checkpoint=resume)["resume"], "damaged", WEIGHTS)
    (whole / WEIGHTS).unlink()
    assert_refused(checked.recipe(checkpoint=resume)["resume"], f"{WEIGHTS} is missing")
    (whole / "manifest.json").unlink()
    assert_refused(checked.recipe(checkpoint=resume)["resume"], "manifest.json")
    assert_refused(checked.recipe(checkpoint={"resume": "gone"})["resume"], "gone does not exist")


def test_of_a_checkpoint_spread_over_nodes_only_this_nodes_files_are_wanted(checked: CheckedConfig) -> None:
    """Nodes without a shared disk: the other's files lie elsewhere, and a run brings them together."""
    part = save(checked.folder / "ck", 40)
    whole = read_manifest(part)
    files = {
        name: replace(entry, node="here" if name == WEIGHTS else "there")
        for name, entry in whole.files.items()
    }
    (part / MANIFEST_NAME).write_bytes(replace(whole, files=files, node="here").render())
    for name in files.keys() - {WEIGHTS}:
        (part / name).unlink()
    assert "step 40" in checked.recipe(checkpoint={"resume": str(part)})["resume"].what
    (part / WEIGHTS).unlink()
    assert_refused(checked.recipe(checkpoint={"resume": str(part)})["resume"], f"{WEIGHTS} is missing")


def test_auto_says_what_it_finds(checked: CheckedConfig) -> None:
    """In a named folder: the newest complete one, none yet, or only a broken one."""
    named = {"directory": "ck"}
    assert "no checkpoint" in checked.recipe(checkpoint=named)["resume"].what
    whole = save(checked.folder / "ck", 40)
    assert "step 40" in checked.recipe(checkpoint=named)["resume"].what
    (whole / WEIGHTS).unlink()
    assert checked.recipe(checkpoint=named)["resume"].status == "warning"
    assert "resume" not in checked.recipe(checkpoint={"resume": "never"})
