"""Files of a run's directory on a node, as folders; the names come from the node and are checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.probe.remote_files import RemoteFile, is_inner

DEEPEST = 64
"""Parts of a name."""
MOST = 100_000
"""Files and folders of a tree; a node lists at most 30,000 files."""


class FileEntry(NamedTuple):
    """A file or folder of a run's directory."""

    path: str
    """Below the directory, with slashes."""
    is_folder: bool
    size: int
    """Bytes; of a folder all that is below it."""
    modified: int
    """Nanoseconds since 1970; of a folder that of its newest file."""

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


class FileTree:
    """Files of one directory. Links and empty folders are left out."""

    def __init__(self, files: Iterable[RemoteFile]) -> None:
        """Take what a node has listed.

        Raises:
            Refusal: a name leads elsewhere, or is that of a file and of a folder; or there are more than
                `MOST` files and folders, or some deeper than `DEEPEST`.
        """
        self._files = {file.name: file for file in files}
        self._below: dict[str, dict[str, FileEntry]] = {"": {}}
        self._count = 0
        for file in self._files.values():
            self._add(file)

    def entries(self, folder: str = "") -> tuple[FileEntry, ...]:
        """Return what is in a folder, folders first; none if there is no such folder."""
        found = self._below.get(folder, {}).values()
        return tuple(sorted(found, key=lambda entry: (not entry.is_folder, entry.path)))

    def at(self, path: str) -> tuple[FileEntry, ...]:
        """Return what is in a folder, or the entry of a file.

        Raises:
            Refusal: there is no such path.
        """
        if path in self._below:
            return self.entries(path)
        (file,) = self.files([path])
        return (FileEntry(path, is_folder=False, size=file.size, modified=file.modified),)

    def files(self, paths: Sequence[str]) -> tuple[RemoteFile, ...]:
        """Return the files of these paths, for folders all below them; "" is the whole directory.

        Raises:
            Refusal: there is no such path.
        """
        found: dict[str, RemoteFile] = {}
        for path in paths:
            below = {
                name: file
                for name, file in self._files.items()
                if not path or name == path or name.startswith(f"{path}/")
            }
            if path and not below:
                raise Refusal(f"the run's directory has no {path}")
            found |= below
        return tuple(found.values())

    def _add(self, file: RemoteFile) -> None:
        path = PurePosixPath(file.name)
        if not is_inner(file.name) or str(path) != file.name:
            raise Refusal(f"the node lists {file.name!r}, which is not the name of a file below a folder")
        if len(path.parts) > DEEPEST:
            raise Refusal(f"the node lists a file below more than {DEEPEST - 1} folders")
        for above, name in zip((*reversed(path.parents),), (*reversed(path.parents[:-1]), path), strict=True):
            is_folder, here = name != path, self._below.setdefault(_text(above), {})
            before = here.get(_text(name))
            if before is not None and not (is_folder and before.is_folder):
                raise Refusal(f"the node lists {file.name!r}, and a file with the name of its folder")
            self._count += before is None
            if self._count > MOST:
                raise Refusal(f"the node lists more than {MOST:,} files and folders")
            size = file.size + (0 if before is None else before.size)
            newest = max(file.modified, file.modified if before is None else before.modified)
            here[_text(name)] = FileEntry(_text(name), is_folder, size, newest)


def _text(path: PurePosixPath) -> str:
    return "" if path == PurePosixPath() else str(path)
