"""Folders that a run writes to, where this user may not even look into them."""

from support.closed_folder import closed_folder
from torchdeck.launch.preflight.folders import check_checkpoint_folder


def test_a_folder_in_one_that_may_not_be_entered_is_refused() -> None:
    """With a sentence: whether it is there, nobody can tell."""
    with closed_folder() as closed:
        checks = list(check_checkpoint_folder(str(closed / "a" / "b"), "localhost"))
    (check,) = checks
    assert (check.name, check.status) == ("checkpoint folder", "failed")
    assert f"{closed / 'a' / 'b'} cannot be made in {closed}" in check.what
    assert "checkpoint.directory" in check.fix
