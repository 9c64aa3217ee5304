"""A run's own copy, whole or not at all."""

import hashlib
import io
import os
from pathlib import Path

import pytest

from torchdeck.agent.snapshots.blobs import BlobMissingError
from torchdeck.agent.snapshots.folder import (
    free,
    has_copy,
    make_from_store,
    making,
    put,
    read_manifest,
    store_of,
)
from torchdeck.agent.snapshots.manifest import Entry, Manifest
from torchdeck.contract.layout import RunLayout

CONTENT = b"print(1)\n"
HASH = hashlib.sha256(CONTENT).hexdigest()
MANIFEST = Manifest.of(
    [
        Entry("a.py", HASH, 9),
        Entry("lib/deep/b c\\xff.py", f"{HASH} x", 9),
        Entry("lib/l.py", "-> ../a.py", 0),
    ]
)


def run(home: Path, name: str = "one") -> RunLayout:
    layout = RunLayout(home / "runs" / name)
    layout.root.mkdir(parents=True)
    return layout


def fill_store(home: Path, manifest: Manifest = MANIFEST) -> None:
    store = store_of(home)
    for blob in manifest.blobs().values():
        _, _, written = store.add(io.BytesIO(CONTENT), 100)
        store.keep(blob, written)


def test_files_folders_and_links_are_made(tmp_path: Path) -> None:
    layout = run(tmp_path)
    fill_store(tmp_path)
    make_from_store(layout, MANIFEST, store_of(tmp_path))
    odd = layout.code / "lib/deep" / os.fsdecode(b"b c\xff.py")
    assert odd.read_bytes() == (layout.code / "lib/l.py").read_bytes() == CONTENT
    assert os.access(odd, os.X_OK)
    assert not os.access(layout.code / "a.py", os.X_OK)
    assert sorted(path.name for path in layout.root.iterdir()) == ["code", "code.json"]
    assert read_manifest(layout) == MANIFEST
    assert has_copy(layout, MANIFEST)


def test_runs_share_contents_and_the_last_frees_them(tmp_path: Path) -> None:
    one, two = run(tmp_path), run(tmp_path, "two")
    fill_store(tmp_path)
    for layout in (one, two):
        make_from_store(layout, MANIFEST, store_of(tmp_path))
    assert (one.code / "a.py").samefile(two.code / "a.py")
    for layout, left in ((one, 2), (two, 0)):
        listed = read_manifest(layout)
        layout.root.rename(tmp_path / layout.root.name)
        for path in sorted((tmp_path / layout.root.name).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        free(tmp_path, listed)
        assert sum(path.is_file() for path in (tmp_path / "code/blobs").rglob("*")) == left


def test_without_a_content_there_is_no_copy_at_all(tmp_path: Path) -> None:
    layout = run(tmp_path)
    with pytest.raises(BlobMissingError):
        make_from_store(layout, MANIFEST, store_of(tmp_path))
    assert list(layout.root.iterdir()) == []


def test_a_copy_is_never_replaced(tmp_path: Path) -> None:
    layout = run(tmp_path)
    fill_store(tmp_path)
    make_from_store(layout, MANIFEST, store_of(tmp_path))
    with making(layout) as made:
        put(layout, made, Manifest(()))
    assert read_manifest(layout) == MANIFEST
    assert (layout.code / "a.py").exists()


def test_a_damaged_list_is_none(tmp_path: Path) -> None:
    layout = run(tmp_path)
    assert read_manifest(layout) is None
    layout.code_manifest.write_text("{}")
    assert read_manifest(layout) is None
