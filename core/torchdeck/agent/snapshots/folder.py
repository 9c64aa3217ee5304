"""A run's own copy of the code: a folder that is wholly there or not at all."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchdeck.agent.environments.made import remove_unused
from torchdeck.agent.snapshots.blobs import BlobMissingError, BlobStore
from torchdeck.agent.snapshots.manifest import MANIFEST_LIMIT, Entry, Manifest, ManifestError
from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.bounded_file import read_bounded
from torchdeck.contract.file_names import name_of
from torchdeck.contract.layout import Home, RunLayout


def store_of(home: Path) -> BlobStore:
    """Return the store shared by the runs of `home`."""
    return BlobStore(Home(home).code)


class FolderBeingMade:
    """Takes files one after the other."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._begin = f"{root}/"
        self._folders = {""}

    def path(self, name: str) -> str:
        """Where the file of this name (not its text) is to be put; the folders above it are made."""
        self._make(name.rpartition("/")[0])
        return self._begin + name

    def link(self, entry: Entry) -> None:
        """Put a symbolic link there."""
        if entry.target is not None:
            Path(self.path(name_of(entry.name))).symlink_to(entry.target)

    def _make(self, folder: str) -> None:
        if folder not in self._folders:
            self._make(folder.rpartition("/")[0])
            (self.root / folder).mkdir(mode=0o700)
            self._folders.add(folder)


@contextmanager
def making(layout: RunLayout) -> Iterator[FolderBeingMade]:
    """Make a folder next to the run's copy; it is removed at the end unless `put` has made it the run's.

    Raises:
        OSError: it cannot be made.
    """
    folder = Path(tempfile.mkdtemp(prefix=".code-", dir=layout.root))
    try:
        yield FolderBeingMade(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put(layout: RunLayout, made: FolderBeingMade, manifest: Manifest) -> None:
    """Make `made`, which holds what `manifest` lists, the run's own copy; what the run has is kept.

    Raises:
        OSError: the run directory cannot be written.
    """
    if layout.code.exists():
        return
    write_bytes(layout.code_manifest, manifest.to_bytes(), durable=False, private=True)
    try:
        made.root.rename(layout.code)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # another process was quicker
            raise


def make_from_store(layout: RunLayout, manifest: Manifest, store: BlobStore) -> None:
    """Make the run's own copy of contents that are kept here.

    Raises:
        BlobMissingError: one is not.
        OSError: the run directory cannot be written.
    """
    if has_copy(layout, manifest):
        return
    with making(layout) as made:
        for entry in manifest.entries:
            if entry.target is not None:
                made.link(entry)
            elif not store.has(entry.blob):
                raise BlobMissingError(entry.blob.key)
            else:
                store.link(entry.blob, made.path(name_of(entry.name)))
        put(layout, made, manifest)


def has_copy(layout: RunLayout, manifest: Manifest) -> bool:
    """Whether the run has this copy already."""
    return layout.code.is_dir() and read_manifest(layout) == manifest


def read_manifest(layout: RunLayout) -> Manifest | None:
    """Return the manifest of the run's copy; None if it has none that can be read."""
    try:
        return Manifest.from_bytes(read_bounded(layout.code_manifest, MANIFEST_LIMIT))
    except (OSError, ManifestError):
        return None


def free(home: Path, manifest: Manifest | None) -> None:
    """Remove from `home` the code that a run that is gone was the last to use, and unused environments."""
    store = store_of(home)
    if manifest is not None:
        store.free(manifest.blobs().values())
    store.tidy()
    remove_unused(Home(home))
