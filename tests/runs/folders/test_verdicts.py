"""What came of hashing checkpoints, remembered."""

import json
import os
from pathlib import Path

import pytest

from support.values.checkpoint_files import save
from torchdeck.contract.bounded_file import UnreadableFileError
from torchdeck.runs.folders.verdicts import (
    Verdict,
    keep_verdict,
    read_verdicts,
    seal_of,
    still_true,
)


def test_a_verdict_holds_until_the_checkpoint_changes(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "step_00000010"
    save(folder.parent, 10)
    verdict = Verdict(("x is damaged",), 12.5, seal_of(folder), unchecked=2)
    keep_verdict(tmp_path, folder, verdict)
    assert still_true(read_verdicts(tmp_path), [folder]) == {folder: verdict}
    file = next(path for path in folder.iterdir() if path.name != "manifest.json")
    status = file.stat()
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert still_true(read_verdicts(tmp_path), [folder]) == {}


def test_another_manifest_has_no_verdict(tmp_path: Path) -> None:
    folder = tmp_path / "step_00000010"
    save(tmp_path, 10)
    keep_verdict(tmp_path, folder, Verdict((), 1.0, seal_of(folder)))
    manifest = folder / "manifest.json"
    times = manifest.stat()
    manifest.write_bytes(manifest.read_bytes().replace(b"ddp", b"dpp").replace(b"single", b"elgnis"))
    os.utime(manifest, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert still_true(read_verdicts(tmp_path), [folder]) == {}


def test_those_of_checkpoints_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "step_00000010"
    save(tmp_path, 10)
    verdict = Verdict((), 1.0, seal_of(folder))
    keep_verdict(tmp_path, tmp_path / "step_00000001", verdict)
    keep_verdict(tmp_path, folder, verdict)
    assert list(read_verdicts(tmp_path)) == [folder]
    assert still_true({tmp_path / "gone": verdict}, [tmp_path / "gone"]) == {}


def test_a_file_that_is_damaged_or_newer_has_none_and_the_newer_stays(tmp_path: Path) -> None:
    path = tmp_path / "verified.json"
    for text in ("{", "[]", '{"v": 1, "checkpoints": {"/x": {"time": "y"}}}'):
        path.write_text(text)
        assert read_verdicts(tmp_path) == {}
    path.write_text(json.dumps({"v": 99}))
    keep_verdict(tmp_path, tmp_path, Verdict((), 1.0, "s"))
    assert json.loads(path.read_text()) == {"v": 99}


@pytest.mark.timeout(20)
def test_a_checkpoint_whose_manifest_is_no_file_has_no_verdict(tmp_path: Path) -> None:
    """A named pipe, a device, a file without end: said at once."""
    folder = tmp_path / "step_00000010"
    save(tmp_path, 10)
    keep_verdict(tmp_path, folder, Verdict((), 1.0, seal_of(folder)))
    manifest = folder / "manifest.json"
    manifest.unlink()
    os.mkfifo(manifest)
    with pytest.raises(UnreadableFileError, match="named pipe"):
        seal_of(folder)
    assert still_true(read_verdicts(tmp_path), [folder]) == {}
    manifest.unlink()
    manifest.symlink_to("/dev/zero")
    with pytest.raises(UnreadableFileError, match="character device"):
        seal_of(folder)
    manifest.unlink()
    manifest.touch()
    os.truncate(manifest, 1 << 40)
    with pytest.raises(UnreadableFileError, match="too large"):
        seal_of(folder)
