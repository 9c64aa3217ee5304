"""Lock, clean, commit, delete, rotate."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.system.small_disk import mounted
from support.values.checkpoint_files import fill, flip, save
from torchdeck.contract.checkpoints.listing import list_checkpoints
from torchdeck.contract.checkpoints.manifest import CheckpointError, read_manifest
from torchdeck.contract.checkpoints.verification import verify
from torchdeck.distributed.checkpoints.checkpoint_directory import CheckpointDirectory
from torchdeck.distributed.checkpoints.retention import Retention


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_dir())


def test_rotation_keeps_the_newest_and_final(tmp_path: Path) -> None:
    """`keep_last` counts the one just saved; `final` never goes, and neither does what is not ours."""
    newest = [save(tmp_path, step) for step in (1, 2, 3, 4)][-1]
    save(tmp_path, 2, name="final")
    (tmp_path / "step_00000000").mkdir()
    gone = CheckpointDirectory(tmp_path).rotate(newest, Retention(2))
    assert [path.name for path in gone] == ["step_00000001", "step_00000002"]
    assert _names(tmp_path) == ["final", "step_00000000", "step_00000003", "step_00000004"]


def test_rotation_never_counts_an_incomplete_one(tmp_path: Path) -> None:
    """A checkpoint that lost a file is no reason to delete a sound older one."""
    save(tmp_path, 1)
    (save(tmp_path, 2) / "trainer.json").unlink()
    newest = save(tmp_path, 3)
    CheckpointDirectory(tmp_path).rotate(newest, Retention(2))
    assert _names(tmp_path) == ["step_00000001", "step_00000002", "step_00000003"]


def test_rotation_never_deletes_what_was_just_saved(tmp_path: Path) -> None:
    """After going on from an older checkpoint, those of later steps do not crowd out the new one."""
    save(tmp_path, 1)
    save(tmp_path, 9)
    newest = save(tmp_path, 2)
    CheckpointDirectory(tmp_path).rotate(newest, Retention(1))
    assert _names(tmp_path) == ["step_00000002", "step_00000009"]


def test_rotation_keeps_milestones_and_the_best(tmp_path: Path) -> None:
    """Besides the newest, every 4th step and the best loss stay; a damaged one is not the best."""
    for step, loss in ((1, 0.1), (2, 0.5), (3, 0.7), (4, 0.9), (5, 0.8)):
        save(tmp_path, step, metrics={"validation_loss": loss})
    (tmp_path / "step_00000001" / "trainer.json").unlink()
    newest = save(tmp_path, 6, metrics={"validation_loss": 0.6})
    CheckpointDirectory(tmp_path).rotate(newest, Retention(1, keep_every=4, keep_best=1))
    assert _names(tmp_path) == ["step_00000002", "step_00000004", "step_00000006"]


def test_commit_replaces_a_former_checkpoint(tmp_path: Path) -> None:
    """The same step again takes the place of what was there; nothing is left aside."""
    owner = CheckpointDirectory(tmp_path)
    save(tmp_path, 3, name="final")
    assert read_manifest(save(tmp_path, 8, name="final")).step == 8
    assert _names(tmp_path) == ["final"]
    flip(tmp_path / "final" / "trainer.json", 0)
    assert verify(save(tmp_path, 8, name="final")) == []
    assert owner.clean() == []


def test_a_failed_commit_leaves_the_former_checkpoint(tmp_path: Path) -> None:
    """When the manifest cannot be written, the former checkpoint of that name is there again."""
    former = save(tmp_path, 3, name="final")
    owner = CheckpointDirectory(tmp_path)
    temporary = tmp_path / ".tmp-final-1"
    owner.make_temporary(temporary)
    manifest = fill(temporary, 4)
    (temporary / "manifest.json").mkdir()  # nothing can be renamed over a folder
    with pytest.raises(OSError, match="manifest"):
        owner.commit(temporary, "final", manifest)
    (former / "manifest.json").rmdir()
    owner.discard(temporary, "final")
    assert _names(tmp_path) == ["final"]
    assert read_manifest(former).step == 3
    assert verify(former) == []


def test_open_cleans_our_own_remains_only(tmp_path: Path) -> None:
    """What interrupted saves and deletions left is removed at the next start; everything else stays."""
    directory = tmp_path / "deep" / "checkpoints"
    save(directory, 1)
    owner = CheckpointDirectory(directory)
    for name in (".tmp-step_00000002-1", "step_00000003"):
        owner.make_temporary(directory / name)
        fill(directory / name, 2)
    (directory / ".deleted-step_00000000-1").mkdir()
    (directory / "mine").mkdir()
    owner.open("run")
    owner.close()
    assert _names(directory) == ["mine", "step_00000001"]


def test_open_makes_a_private_directory(tmp_path: Path) -> None:
    """No one else reads checkpoints."""
    owner = CheckpointDirectory(tmp_path / "checkpoints")
    owner.open("run")
    owner.close()
    assert (tmp_path / "checkpoints").stat().st_mode & 0o777 == 0o700


def test_an_unusable_directory_is_one_sentence(tmp_path: Path) -> None:
    """A directory that cannot be made is named, with what to change."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"cannot be written to .*choose another directory"):
        CheckpointDirectory(tmp_path / "file" / "checkpoints").open("run")


@pytest.mark.root
def test_a_read_only_file_system_is_said_when_a_run_opens_it(tmp_path: Path) -> None:
    """Before anything is trained: by the sentence of the system, and with what to change."""
    with mounted(tmp_path, "ro"):
        with pytest.raises(CheckpointError, match="Read-only file system; choose another"):
            CheckpointDirectory(tmp_path / "checkpoints").open("run")
        with pytest.raises(CheckpointError, match="Read-only file system"):
            CheckpointDirectory(tmp_path).open("run")


@pytest.mark.processes
def test_two_runs_do_not_share_a_directory(tmp_path: Path) -> None:
    """The second writer is refused, with whose it is; when the first is gone it may."""
    code = (
        "import sys; from pathlib import Path\n"
        "from torchdeck.distributed.checkpoints.checkpoint_directory import CheckpointDirectory\n"
        "CheckpointDirectory(Path(sys.argv[1])).open('first-run')\n"
        "print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "open\n"
        with pytest.raises(CheckpointError, match=r"another run is saving .*first-run"):
            CheckpointDirectory(tmp_path).open("second-run", wait=0.2)
        first.communicate("", timeout=30)
    second = CheckpointDirectory(tmp_path)
    second.open("second-run", wait=5)
    second.close()


def test_who_lost_the_directory_changes_nothing_there_any_more(tmp_path: Path) -> None:
    """Two have the lock, as after a file server gave it on: the later one alone commits and deletes.

    Deleting the lock file does that: each holds the lock of a file of that name.
    """
    first, second = CheckpointDirectory(tmp_path), CheckpointDirectory(tmp_path)
    old = save(tmp_path, 1)
    first.open("first")
    begun, other = tmp_path / ".tmp-step_00000002-1", tmp_path / ".tmp-step_00000003-1"
    for folder in (begun, other):
        first.make_temporary(folder)
    placed = fill(other, 3)
    first.place(other, "step_00000003")
    (tmp_path / ".lock").unlink()
    second.open("second")
    mine = tmp_path / ".tmp-step_00000003-2"
    second.make_temporary(mine)
    manifest = fill(mine, 3)
    second.place(mine, "step_00000003")
    lost = rf"another process has begun to save .*run second, pid {os.getpid()} on "
    for what in (
        lambda: first.make_temporary(begun),
        lambda: first.confirm("step_00000003", placed),
        lambda: first.place(tmp_path / "step_00000003", "step_00000001"),
    ):
        with pytest.raises(CheckpointError, match=lost):
            what()
    first.discard(begun, "step_00000003")
    assert first.rotate(tmp_path / "step_00000003", Retention(1)) == []
    second.confirm("step_00000003", manifest)
    assert verify(tmp_path / "step_00000003") == verify(old) == []
    assert _names(tmp_path) == ["step_00000001", "step_00000003"]
    assert second.rotate(tmp_path / "step_00000003", Retention(1)) == [old]


@pytest.mark.root
def test_room_can_be_made_on_a_full_disk(tmp_path: Path) -> None:
    """Nothing can be written there, not even whose the directory is; a former writer is none any more."""
    with mounted(tmp_path, "size=256k"):
        former = CheckpointDirectory(tmp_path)
        former.open("former")
        folder = save(tmp_path, 1)
        former.close()
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "filling").write_bytes(b"x" * 2**20)
        owner = CheckpointDirectory(tmp_path)
        owner.open("later", wait=0.0)
        with pytest.raises(OSError, match="writer"):
            former.make_temporary(tmp_path / ".tmp-step_00000002-1")
        owner.delete(folder)
        (tmp_path / "filling").unlink()
        later = tmp_path / ".tmp-step_00000003-1"
        owner.make_temporary(later)  # there is room for the claim, too
        owner.close()
        third = CheckpointDirectory(tmp_path)
        third.open("third", wait=0.0)
        third.close()
        with pytest.raises(CheckpointError, match="another process has begun to save"):
            owner.make_temporary(later)
        assert _names(tmp_path) == []


@pytest.mark.processes
def test_a_deletion_that_stops_half_way_leaves_no_checkpoint(tmp_path: Path) -> None:
    """A file that cannot be deleted keeps neither the name nor the look of a checkpoint alive."""
    folder = save(tmp_path, 1)
    if os.geteuid() == 0:
        subprocess.run(
            ["chattr", "+i", str(folder / ".metadata")], check=False, capture_output=True, timeout=10
        )
    else:
        folder.chmod(0o500)
    try:
        CheckpointDirectory(tmp_path).delete(folder)
        assert [info for info in list_checkpoints(tmp_path) if info.complete] == []
    finally:
        for path in tmp_path.iterdir():
            subprocess.run(["chattr", "-R", "-i", str(path)], check=False, capture_output=True, timeout=10)
            path.chmod(0o700)
