"""Manifests, and what lies in a checkpoint directory."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.values.checkpoint_files import FILES, fill, flip, manifest_of, save
from torchdeck.contract.checkpoints import listing
from torchdeck.contract.checkpoints.listing import inspect, is_leftover, list_checkpoints, newest_complete
from torchdeck.contract.checkpoints.manifest import (
    MANIFEST_NAME,
    CheckpointError,
    FileEntry,
    read_manifest,
)
from torchdeck.contract.checkpoints.verification import verify


def test_a_sound_checkpoint_verifies(tmp_path: Path) -> None:
    """What was committed reads back as it was, and nothing is wrong with it."""
    folder = save(tmp_path, 20)
    assert verify(folder) == []
    manifest = read_manifest(folder)
    assert (manifest.step, manifest.world_size, manifest.position["consumed"]) == (20, 1, 20)
    assert set(manifest.files) == set(FILES)
    assert manifest.size == sum((folder / name).stat().st_size for name in FILES)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([*FILES, MANIFEST_NAME]), st.integers(0, 10_000), st.integers(1, 255))
def test_any_flipped_byte_is_found(tmp_path: Path, name: str, offset: int, mask: int) -> None:
    """One changed byte anywhere in any file, the manifest included, is found, and the file is named."""
    folder = tmp_path / "step_00000020"
    if not folder.exists():
        save(tmp_path, 20)
    flip(folder / name, offset, mask)
    problems = verify(folder)
    flip(folder / name, offset, mask)
    assert len(problems) == 1
    assert name in problems[0]
    assert verify(folder) == []


def test_damage_is_told_with_both_hashes(tmp_path: Path) -> None:
    """The sentence about a damaged file has what it is and what it should be."""
    folder = save(tmp_path, 1)
    expected = read_manifest(folder).files["trainer.json"].sha256
    flip(folder / "trainer.json", 0)
    assert "damaged: SHA-256" in verify(folder)[0]
    assert expected in verify(folder)[0]


def test_a_missing_and_a_short_file_are_told_apart(tmp_path: Path) -> None:
    """A file that is gone, and one that lost its end, are each named with what is wrong."""
    folder = save(tmp_path, 1)
    (folder / "trainer.json").unlink()
    (folder / ".metadata").write_bytes(b"la")
    assert sorted(problem.split("/")[-1] for problem in verify(folder)) == [
        ".metadata has 2 bytes, its manifest says 16",
        "trainer.json is missing: No such file or directory",
    ]


def _edited(change: Callable[[dict[str, Any]], object]) -> bytes:
    value = json.loads(manifest_of(3, {"a": FileEntry(1, "0" * 64)}).render())
    change(value)
    return json.dumps(value, sort_keys=True, indent=1).encode() + b"\n"


def _nested(depth: int) -> bytes:
    """A manifest whose position is an object in an object in an object."""
    whole = _edited(lambda value: value.update(position={"in": 0}))
    return whole.replace(b'"in": 0', b'"in": ' + b'{"in": ' * depth + b"0" + b"}" * depth)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "damaged"),
        (b"{", "damaged"),
        (b"[]", "damaged"),
        (b"[" * 100_000, "damaged"),
        (b"{}", "damaged"),
        (_edited(lambda value: value.update(v=4)), "newer Torchdeck"),
        (_edited(lambda value: value.update(v=1)), "edited"),
        (_edited(lambda value: value.update(v=0)), "no format 0"),
        (_edited(lambda value: value.update(v="2")), "v is '2'"),
        (_edited(lambda value: value.pop("metrics")), "metrics"),
        (_edited(lambda value: value.update(metrics={"loss": "low"})), "loss is 'low'"),
        (_edited(lambda value: value.update(position={"epoch": float("inf")})), "damaged"),
        (_nested(950), "damaged"),
        (_edited(lambda value: value.update(run_id="\ud800")), "damaged"),
        (_edited(lambda value: value["files"]["a"].update(node=7)), "node is 7"),
        (_edited(lambda value: value["files"]["a"].update(copies="b")), "copies of a are 'b'"),
        (_edited(lambda value: value.update(step=4)), "edited"),
        (_edited(lambda value: value.update(step=True)), "step is True"),
        (_edited(lambda value: value.update(created="now")), "created is 'now'"),
        (_edited(lambda value: value.update(files={})), "names no files"),
        (_edited(lambda value: value.update(files=[1])), "damaged"),
        (_edited(lambda value: value.update(position=[])), "position"),
        (_edited(lambda value: value["files"].update({"../x": value["files"]["a"]})), "not a plain path"),
        (_edited(lambda value: value["files"].update({"/x": value["files"]["a"]})), "not a plain path"),
        (_edited(lambda value: value["files"]["a"].update(sha256="x")), "not a SHA-256"),
        (_edited(lambda value: value["files"]["a"].update(size=-1)), "size is -1"),
    ],
)
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    """Whatever lies in manifest.json, reading it gives a manifest or a sentence that says what is wrong."""
    (tmp_path / MANIFEST_NAME).write_bytes(content)
    with pytest.raises(CheckpointError, match=said):
        read_manifest(tmp_path)


def test_metrics_and_nodes_are_kept(tmp_path: Path) -> None:
    """What an evaluation gave, and which node has which file, come back; what is no number is left out."""
    entries = {"a": FileEntry(1, "0" * 64, node="first"), "b": FileEntry(2, "1" * 64)}
    written = replace(
        manifest_of(3, entries), metrics={"validation_loss": 1, "validation_accuracy": float("nan")}
    )
    (tmp_path / MANIFEST_NAME).write_bytes(written.render())
    manifest = read_manifest(tmp_path)
    assert manifest.metrics == {"validation_loss": 1.0}
    assert manifest.files == entries


def test_a_manifest_of_version_1_is_read(tmp_path: Path) -> None:
    """Checkpoints of an older Torchdeck stay usable: their own hash still holds, and nothing may be added."""
    former = (
        b'{\n "attempt": 1,\n "created": 1700000000.5,\n "files": {\n  "a": {\n   "sha256": "'
        + b"0" * 64
        + b'",\n   "size": 1\n  }\n },\n "model_fingerprint": "f",\n "position": {\n  "epoch": 0\n },\n'
        b' "run_id": "run",\n "seconds": 0.25,\n "sha256": "%s",\n "step": 3,\n "strategy": "ddp",\n'
        b' "v": 1,\n "world_size": 2\n}\n'
    )
    unsigned = former.replace(b' "sha256": "%s",\n', b"")
    signed = former % hashlib.sha256(unsigned).hexdigest().encode()
    (tmp_path / MANIFEST_NAME).write_bytes(signed)
    manifest = read_manifest(tmp_path)
    assert (manifest.version, manifest.step, manifest.world_size, manifest.metrics) == (1, 3, 2, {})
    assert manifest.render() == signed
    (tmp_path / MANIFEST_NAME).write_bytes(signed.replace(b'"v": 1,', b'"v": 1, "metrics": {},'))
    with pytest.raises(CheckpointError, match="edited"):
        read_manifest(tmp_path)


def test_a_link_is_no_file_of_a_checkpoint(tmp_path: Path) -> None:
    """A link out of the folder, a pipe that would never end, and a manifest that is one, are refused."""
    folder = save(tmp_path, 1)
    (folder / "trainer.json").rename(tmp_path / "outside")
    (folder / "trainer.json").symlink_to(tmp_path / "outside")
    assert "is a link" in verify(folder)[0]
    (folder / "trainer.json").unlink()
    os.mkfifo(folder / "trainer.json")
    assert "not a regular file" in verify(folder)[0]
    (folder / MANIFEST_NAME).unlink()
    os.mkfifo(folder / MANIFEST_NAME)
    assert "not a regular file" in verify(folder)[0]


@pytest.mark.parametrize("name", ["manifest.json", "MANIFEST.json", "manifest.json/x", ".uncommitted"])
def test_a_manifest_that_names_itself_is_refused_at_once(tmp_path: Path, name: str) -> None:
    """It could never have the hash of itself, so that nothing is hashed to find out."""
    folder = save(tmp_path, 1)
    manifest = read_manifest(folder)
    files = {**manifest.files, name: FileEntry(7, "0" * 64)}
    (folder / MANIFEST_NAME).write_bytes(replace(manifest, files=files).render())
    (problem,) = verify(folder)
    assert f"it names {name!r}: no manifest can have its own hash" in problem
    assert newest_complete(tmp_path) is None


def test_metrics_that_are_a_list_are_damage(tmp_path: Path) -> None:
    folder = save(tmp_path, 1)
    value = json.loads((folder / MANIFEST_NAME).read_bytes())
    (folder / MANIFEST_NAME).write_text(json.dumps({**value, "metrics": [1]}))
    assert "position or metrics is not an object" in verify(folder)[0]


def test_no_manifest_and_no_folder_are_told_apart(tmp_path: Path) -> None:
    """A partial folder and a path that leads nowhere get a sentence each."""
    with pytest.raises(CheckpointError, match="interrupted"):
        read_manifest(tmp_path)
    with pytest.raises(CheckpointError, match="no such folder"):
        read_manifest(tmp_path / "absent")


def test_a_directory_is_listed_newest_last(tmp_path: Path) -> None:
    """Checkpoints by step, `final` after its step, remains of saves as not complete, strangers not at all."""
    save(tmp_path, 30)
    save(tmp_path, 4)
    save(tmp_path, 30, name="final")
    (tmp_path / "step_00000050").mkdir()
    (tmp_path / ".tmp-step_00000040-1").mkdir()
    (tmp_path / ".deleted-step_00000001-1").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "step_00000060").write_text("a file")
    listed = [(info.path.name, info.complete) for info in list_checkpoints(tmp_path)]
    assert listed == [
        (".deleted-step_00000001-1", False),
        ("step_00000004", True),
        ("step_00000030", True),
        ("final", True),
        (".tmp-step_00000040-1", False),
        ("step_00000050", False),
    ]
    newest = newest_complete(tmp_path)
    assert newest is not None
    assert newest.path.name == "final"
    assert newest.manifest is not None
    assert newest.size == newest.manifest.size


def test_an_absent_and_an_empty_directory_hold_nothing(tmp_path: Path) -> None:
    """No directory yet is no error."""
    assert list_checkpoints(tmp_path / "absent") == []
    assert newest_complete(tmp_path) is None


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """A checkpoint directory that cannot be listed is said, with its path."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be listed"):
        list_checkpoints(tmp_path / "file")


def test_what_is_deleted_while_it_is_looked_at_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old checkpoints go at any moment, and whoever lists them meanwhile knows nothing of it."""
    save(tmp_path, 2)
    going = save(tmp_path, 1).rename(tmp_path / ".deleted-step_00000001-1")

    def look(path: Path) -> int:
        shutil.rmtree(going, ignore_errors=True)
        return 0

    monkeypatch.setattr(listing, "_file_size", look)
    assert [info.path.name for info in list_checkpoints(tmp_path) if info.complete] == ["step_00000002"]
    assert not going.exists()


def test_a_short_file_makes_a_checkpoint_incomplete_without_hashing(tmp_path: Path) -> None:
    """The cheap look sees sizes, so the one before it is the newest complete."""
    save(tmp_path, 1)
    damaged = save(tmp_path, 2)
    (damaged / ".metadata").write_bytes(b"")
    newest = newest_complete(tmp_path)
    assert newest is not None
    assert newest.step == 1
    info = inspect(damaged)
    assert info is not None
    assert "has 0 bytes" in info.why


def test_a_renamed_checkpoint_is_noticed(tmp_path: Path) -> None:
    """A folder whose name says another step than its manifest is not taken for that step."""
    save(tmp_path, 2).rename(tmp_path / "step_00000009")
    info = inspect(tmp_path / "step_00000009")
    assert info is not None
    assert not info.complete
    assert "was renamed" in info.why


def test_only_our_own_remains_are_leftovers(tmp_path: Path) -> None:
    """Temporary names and marked partial folders are ours to clean; what a person made or damaged is not."""
    ours = [".tmp-step_00000001-1", ".tmp-final-12", ".deleted-step_00000001-1", "step_00000007"]
    theirs = ["step_00000008", "final", ".tmp-notes", "tmp-step_00000001-1", ".replaced-step_00000003"]
    for name in ours + theirs:
        (tmp_path / name).mkdir()
    (tmp_path / "step_00000007" / ".uncommitted").touch()
    (tmp_path / ".tmp-step_00000002-1").symlink_to(tmp_path / "final")
    assert sorted(path.name for path in tmp_path.iterdir() if is_leftover(path)) == sorted(ours)


def test_a_former_checkpoint_counts_until_its_successor_is_committed(tmp_path: Path) -> None:
    """`.replaced-NAME` is a checkpoint while NAME is none, and a leftover once NAME is complete."""
    save(tmp_path, 5).rename(tmp_path / ".replaced-step_00000005")
    newest = newest_complete(tmp_path)
    assert newest is not None
    assert newest.path.name == ".replaced-step_00000005"
    assert not is_leftover(newest.path)
    folder = tmp_path / "step_00000005"
    folder.mkdir()
    (folder / MANIFEST_NAME).write_bytes(fill(folder, 5).render())
    assert is_leftover(tmp_path / ".replaced-step_00000005")


@pytest.mark.processes
def test_reading_checkpoints_needs_the_standard_library_only() -> None:
    """Agent, preflight and command line read checkpoints without torch or numpy."""
    code = (
        "import sys; from torchdeck.contract.checkpoints import choose, listing, manifest; "
        "from torchdeck.distributed.checkpoints import checkpoint_directory; "
        "print(sorted({'torch', 'numpy', 'pydantic'} & set(sys.modules)))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert printed.stdout.strip() == "[]"
