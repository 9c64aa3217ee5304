"""Writes data from a node into the controller's run directory. Data from the node is not trusted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from torchdeck import quantities
from torchdeck.agent.link.mirrored_file import (
    Have,
    NotPlainError,
    Opened,
    digest,
    have,
    open_plain,
    refuse_link,
    refuse_links,
)
from torchdeck.agent.link.names import NOTHING, Level, Mirrored, Way, is_node_name, mirrored
from torchdeck.contract.atomic import write_bytes

FILES_LIMIT = 200_000
"""Maximum number of files that one node may have here."""
ALWAYS_LIMIT = 2 * 1024**3
"""Maximum bytes of one node's files that are accepted however full the disk is: journals, heartbeats, states.
"""
UNFINISHED_LIMIT = 64 * 1024 * 1024
"""Maximum bytes of incomplete files at once; a node sends them one after the other within a level."""


class MirrorRefusedError(Exception):
    """The node sent invalid data; the message says what."""


class Mirror:
    """One node's files below the controller's run directory. One thread."""

    def __init__(self, root: Path, node: str, wants: Callable[[str], bool] = lambda _path: True) -> None:
        """Create a mirror of `node`'s files in the run directory `root`.

        Args:
            root: the run directory.
            node: the node's name.
            wants: filter of the files, by path, that are accepted from this node; see `own_files`.

        Raises:
            MirrorRefusedError: the node's name is not a valid folder name.
        """
        if not is_node_name(node):
            raise MirrorRefusedError(f"{node!r} is not a valid node name")
        self.root = root
        self._node = node
        self._wants = wants
        self._known: dict[str, Mirrored] = {}
        self._pieces: dict[str, bytearray] = {}
        self._always: dict[str, int] = {}
        """Bytes of each file that is taken however full the disk is."""
        self._always_bytes = 0
        self.held = NOTHING
        """The level from which on what comes is passed over: the disk has no room for it."""

    def wants(self, path: str) -> bool:
        """Return whether a file that the node may have is accepted from it. Raises MirrorRefusedError for any
        other.
        """
        if mirrored(path, self._node) is None:
            raise MirrorRefusedError(f"{path!r} is no file of node {self._node}'s part of a run")
        return self._wants(path)

    @property
    def held_kinds(self) -> str:
        """Kinds of data that are held back, as text; empty: none."""
        if self.held == NOTHING:
            return ""
        return "logs" if self.held >= Level.LOGS else "logs and metrics"

    def have(self, path: str) -> Have:
        """Return what is here of a file; one that grows is created.

        Raises:
            MirrorRefusedError: the node has no such file, or a link is in its place.
            OSError: it cannot be read.
        """
        kind = self._kind(path)
        grows = kind.way.grows
        self._pieces.pop(path, None)
        try:
            descriptor, found = self._opened(path, os.O_RDONLY | os.O_CREAT if grows else os.O_RDONLY)
        except FileNotFoundError:
            return Have(0)
        try:
            size = found.st_size
            if grows:
                return have(descriptor, size)
            content = os.pread(descriptor, min(size, kind.limit) + 1, 0)
            return Have(size, whole=digest(content) if len(content) <= kind.limit else "")
        finally:
            os.close(descriptor)

    def put(self, path: str, at: int, data: bytes) -> None:
        """Write bytes of a file that grows; raises as `have`."""
        kind = self._growing(path)
        if kind.level >= self.held:
            return
        if at + len(data) > kind.limit:
            raise MirrorRefusedError(f"{path} would be longer than {quantities.size(kind.limit)}")
        self._count(kind, path, at + len(data))
        descriptor, found = self._opened(path, os.O_WRONLY | os.O_CREAT)
        try:
            size = found.st_size
            if at > size:
                raise MirrorRefusedError(f"{path} has {size} bytes here, and the node continues at {at}")
            _write_all(descriptor, data, at)
        finally:
            os.close(descriptor)

    def cut(self, path: str, size: int) -> None:
        """Truncate a file that is shorter than its mirror; raises as `have`."""
        if self._growing(path).level >= self.held:
            return
        descriptor, found = self._opened(path, os.O_WRONLY | os.O_CREAT)
        try:
            if size < found.st_size:
                os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)

    def piece(self, path: str, at: int, data: bytes, *, last: bool) -> None:
        """Add a piece of a file that is replaced as a whole once the last piece arrives; raises as `have`."""
        kind = self._kind(path)
        if kind.way.grows:
            raise MirrorRefusedError(f"{path} is not replaced but appended to")
        if at == 0:
            self._pieces[path] = bytearray()
        held = self._pieces.get(path)
        unfinished = sum(map(len, self._pieces.values())) + len(data)
        if held is None or at != len(held) or unfinished > UNFINISHED_LIMIT:
            raise MirrorRefusedError(f"a piece of {path} at {at} does not follow what came before")
        if at + len(data) > kind.limit:
            raise MirrorRefusedError(f"{path} would be longer than {quantities.size(kind.limit)}")
        held += data
        self._count(kind, path, len(held))
        if last:
            del self._pieces[path]
            self._replace(kind.way, path, bytes(held))

    def _replace(self, way: Way, path: str, content: bytes) -> None:
        if way is Way.RECORD:
            self._overwrite(path, content)
            return
        try:
            refuse_link(self.root, path)
        except NotPlainError as error:
            raise MirrorRefusedError(str(error)) from error
        write_bytes(self.root / path, content, durable=False, private=True)

    def _overwrite(self, path: str, content: bytes) -> None:
        """Overwrite in place, as the original writer does: a rename makes some file systems write to the disk
        at once.
        """
        descriptor, found = self._opened(path, os.O_WRONLY | os.O_CREAT)
        try:
            _write_all(descriptor, content, 0)
            if found.st_size > len(content):
                os.ftruncate(descriptor, len(content))
        finally:
            os.close(descriptor)

    def _count(self, kind: Mirrored, path: str, size: int) -> None:
        """Limit the sum of the files that a full disk does not hold back, so that no node can fill the
        disk.
        """
        if kind.level >= Level.METRICS:
            return
        before = self._always.get(path, 0)
        self._always[path] = max(size, before)
        self._always_bytes += self._always[path] - before
        if self._always_bytes > ALWAYS_LIMIT:
            raise MirrorRefusedError(
                f"node {self._node} has sent more than {quantities.size(ALWAYS_LIMIT)} of journals and states"
            )

    def _growing(self, path: str) -> Mirrored:
        kind = self._kind(path)
        if not kind.way.grows:
            raise MirrorRefusedError(f"{path} is not appended to but replaced")
        return kind

    def _kind(self, path: str) -> Mirrored:
        """Return how a file is mirrored, and create its folders if it is new."""
        kind = self._known.get(path)
        if kind is None:
            kind = mirrored(path, self._node)
            if kind is None or not self._wants(path):
                raise MirrorRefusedError(f"{path!r} is no file of node {self._node}'s part of a run")
            if len(self._known) >= FILES_LIMIT:
                raise MirrorRefusedError(f"node {self._node} has more than {FILES_LIMIT} files")
            self._refuse_links(path)
            (self.root / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._known[path] = kind
        return kind

    def _opened(self, path: str, flags: int) -> Opened:
        try:
            return open_plain(self.root, path, flags)
        except NotPlainError as error:
            raise MirrorRefusedError(str(error)) from error

    def _refuse_links(self, path: str) -> None:
        try:
            refuse_links(self.root, path)
        except NotPlainError as error:
            raise MirrorRefusedError(str(error)) from error


def have_json(found: Have) -> Mapping[str, int | str]:
    """Return the fields for a frame's head."""
    return {name: value for name, value in found._asdict().items() if value != ""}


def _write_all(descriptor: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written
