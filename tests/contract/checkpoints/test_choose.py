"""Which checkpoint a start resumes from."""

from pathlib import Path

import pytest

from support.values.checkpoint_files import flip, manifest_of, save
from torchdeck.contract.checkpoints.choose import Choice, choose_checkpoint
from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, CheckpointError
from torchdeck.contract.checkpoints.verification import hash_file


def test_auto_takes_the_newest_sound_one(tmp_path: Path) -> None:
    """The newest whose hashes verify is chosen; partial folders are passed over in silence."""
    save(tmp_path, 10)
    newest = save(tmp_path, 20)
    (tmp_path / ".tmp-step_00000030-1").mkdir()
    (tmp_path / "step_00000040").mkdir()
    assert choose_checkpoint(tmp_path, "auto") == Choice(newest, 20)


def test_a_damaged_one_is_said_and_the_one_before_used(tmp_path: Path) -> None:
    """The sentence names checkpoint, file and both hashes."""
    older = save(tmp_path, 10)
    flip(save(tmp_path, 20) / "__0_0.distcp", 3)
    choice = choose_checkpoint(tmp_path, "auto")
    assert (choice.folder, choice.step) == (older, 10)
    assert len(choice.refused) == 1
    assert choice.refused[0].folder.name == "step_00000020"
    assert "__0_0.distcp is damaged: SHA-256" in choice.refused[0].why


def test_all_damaged_is_an_error_not_a_fresh_start(tmp_path: Path) -> None:
    """Starting afresh where checkpoints were would lose them in silence."""
    flip(save(tmp_path, 10) / ".metadata", 0)
    with pytest.raises(CheckpointError, match="every checkpoint"):
        choose_checkpoint(tmp_path, "auto")


@pytest.mark.parametrize("resume", ["never", "", "auto"])
def test_a_fresh_start(tmp_path: Path, resume: str) -> None:
    """`never`, nothing, and `auto` where there is nothing start over."""
    assert choose_checkpoint(tmp_path / "absent", resume) == Choice(None, 0)


def test_never_ignores_what_is_there(tmp_path: Path) -> None:
    """`never` means never."""
    save(tmp_path, 10)
    assert choose_checkpoint(tmp_path, "never").folder is None


def test_a_path_is_that_checkpoint_or_an_error(tmp_path: Path) -> None:
    """A path is taken even where newer ones lie, and refused when damaged: nothing else was asked for."""
    older = save(tmp_path / "a", 10)
    save(tmp_path / "a", 20)
    assert choose_checkpoint(tmp_path / "b", str(older)) == Choice(older, 10)
    assert choose_checkpoint(tmp_path / "b", str(tmp_path / "a")).step == 20
    flip(older / "trainer.json", 0)
    with pytest.raises(CheckpointError, match=r"trainer\.json is damaged"):
        choose_checkpoint(tmp_path / "b", str(older))
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        choose_checkpoint(tmp_path / "b", str(tmp_path / "absent"))
    with pytest.raises(CheckpointError, match=r"holds no manifest\.json"):
        choose_checkpoint(tmp_path / "b", str(tmp_path))


def test_a_single_file_is_to_be_converted_first(tmp_path: Path) -> None:
    """Its hashes fit, and the sentence says which command makes a checkpoint of it."""
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "model.json").write_text("{}")
    manifest = manifest_of(3, {"model.json": hash_file(folder / "model.json")})
    (folder / MANIFEST_NAME).write_bytes(manifest.render())
    with pytest.raises(CheckpointError, match=r"ckpt convert .*export DST --to sharded"):
        choose_checkpoint(tmp_path, str(folder))
