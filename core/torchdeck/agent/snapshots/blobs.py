"""Contents of files by their hash, kept once for all runs of a home.

A run's copy is made of hard links to them, so the file system itself counts the users, and no crash makes
the count wrong. Nothing here needs a lock: a file that another process just freed is simply missing again.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from torchdeck.agent.snapshots.manifest import Blob

CHUNK = 1 << 18
ABANDONED = 86_400.0
"""Seconds after which a transfer is abandoned and its result unused."""
KEPT_TIME = 946_684_800
"""Modification time of all that is kept, the beginning of 2000: whoever writes into a file changes it."""
_NO_LINK = (errno.EMLINK, errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
"""Too many links to an empty file; runs on another disk; a file system without links."""


class BlobDamagedError(Exception):
    """The received content is not the announced one."""


class BlobMissingError(Exception):
    """A content that is needed is not kept; its key is the argument."""


class BlobStore:
    """The contents below `folder`, which is made when something is put there."""

    def __init__(self, folder: Path) -> None:
        self._blobs = folder / "blobs"
        self._begin = f"{self._blobs}/"
        self._incoming = folder / "incoming"
        self._booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)

    def path(self, blob: Blob) -> Path:
        """Its path, if it exists."""
        return Path(self._place(blob))

    def _place(self, blob: Blob) -> str:
        """As a text: thousands are made at a launch."""
        key = blob.key
        return f"{self._begin}{key[:2]}/{key[2:]}"

    def has(self, blob: Blob) -> bool:
        """Whether it is there and whole; a damaged one is removed."""
        try:
            stat = os.stat(self._place(blob))  # noqa: PTH116
        except OSError:
            return False
        # size and time of an untouched file; a power cut may have taken bytes and left both
        if (stat.st_size, stat.st_mtime) == (blob.size, KEPT_TIME) and stat.st_ctime >= self._booted:
            return True
        path = self.path(blob)
        if _hash_of(path) == blob.hash:
            os.utime(path, (KEPT_TIME, KEPT_TIME))
            return True
        path.unlink(missing_ok=True)
        return False

    def put(self, blob: Blob, data: bytes) -> None:
        """Keep `data`, which is the content of `blob`."""
        self._incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
        written = f"{self._incoming}/.put-{os.urandom(8).hex()}"
        file = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(file, "wb", buffering=0) as out:  # noqa: PTH123 - a descriptor
                view = memoryview(data)
                while view:
                    view = view[out.write(view) :]
            self._keep(blob, written)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(written)  # noqa: PTH108
            raise

    def add(self, content: BinaryIO, limit: int) -> tuple[str, int, Path]:
        """Write what can be read of `content` to a file of its own; its hash, its size, and the file.

        `keep` or `drop` it then: its name in the store is not known before all is read. At most `limit`
        bytes are read.
        """
        self._incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
        digest, size = hashlib.sha256(), 0
        handle, name = tempfile.mkstemp(prefix=".reading-", dir=self._incoming)
        try:
            with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor
                while size < limit and (chunk := content.read(min(CHUNK, limit - size))):
                    digest.update(chunk)
                    size += file.write(chunk)
        except BaseException:
            Path(name).unlink()
            raise
        return digest.hexdigest(), size, Path(name)

    def keep(self, blob: Blob, written: Path) -> None:
        """Take `written`, whose hash is known, into the store."""
        self._keep(blob, str(written))

    def _keep(self, blob: Blob, written: str) -> None:
        os.chmod(written, 0o500 if blob.executable else 0o400)  # noqa: PTH101
        os.utime(written, (KEPT_TIME, KEPT_TIME))
        place = self._place(blob)
        try:
            os.replace(written, place)  # noqa: PTH105
        except FileNotFoundError:
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
            os.replace(written, place)  # noqa: PTH105

    def link(self, blob: Blob, target: str) -> None:
        """Make `target` a file of this content.

        Raises:
            BlobMissingError: it is not there.
            OSError: `target` cannot be written.
        """
        source = self._place(blob)
        try:
            os.link(source, target)
        except FileNotFoundError:
            raise BlobMissingError(blob.key) from None
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            _copy(Path(source), Path(target), blob)

    @contextmanager
    def incoming(self, blob: Blob) -> Iterator[Incoming]:
        """Receive it, continuing an interrupted transfer; received data is always kept."""
        self._incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._incoming / blob.key
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another run receives the same: each its own file
                os.close(file)
                file, name = tempfile.mkstemp(prefix=".second-", dir=self._incoming)
                path = Path(name)
            yield Incoming(self, blob, path, file)
        finally:
            os.close(file)
            if path.name.startswith(".second-"):
                path.unlink(missing_ok=True)

    def arrived(self, blob: Blob) -> int:
        """How many bytes of it an earlier transfer left."""
        try:
            return min(blob.size, (self._incoming / blob.key).stat().st_size)
        except OSError:
            return 0

    def free(self, blobs: Iterable[Blob]) -> None:
        """Remove those of `blobs` that no run uses any more."""
        for blob in blobs:
            path = self.path(blob)
            with suppress(OSError):
                if path.stat().st_nlink == 1:
                    path.unlink()

    def tidy(self, now: float | None = None) -> None:
        """Remove what no run uses, and what was cut in arriving, a day after it was last touched."""
        limit = (time.time() if now is None else now) - ABANDONED
        for path in (*self._incoming.glob("*"), *self._incoming.glob(".*"), *self._blobs.glob("*/*")):
            with suppress(OSError):
                stat = path.stat()
                if stat.st_nlink == 1 and stat.st_ctime < limit:
                    path.unlink()


class Incoming:
    """A content that is arriving."""

    def __init__(self, store: BlobStore, blob: Blob, path: Path, file: int) -> None:
        self._store = store
        self._blob = blob
        self._path = path
        self._file = file

    def write(self, offset: int, data: bytes) -> None:
        """Lay down bytes from `offset` on; no gap may be before them.

        Raises:
            BlobDamagedError: they do not follow what is there, or go beyond the size that was announced.
        """
        there = os.fstat(self._file).st_size
        if offset > there or offset + len(data) > self._blob.size:
            raise BlobDamagedError(
                f"bytes {offset} to {offset + len(data)} of {self._blob.key} came, where {there} of "
                f"{self._blob.size} had arrived"
            )
        view = memoryview(data)
        while view:
            written = os.pwrite(self._file, view, offset)
            view, offset = view[written:], offset + written

    def finish(self) -> None:
        """Take it into the store.

        Raises:
            BlobDamagedError: it is not what was announced; all of it will be asked for again.
        """
        if os.fstat(self._file).st_size != self._blob.size or _hash_of(self._path) != self._blob.hash:
            self._path.unlink(missing_ok=True)
            raise BlobDamagedError(f"what arrived as {self._blob.key} has another hash")
        self._store.keep(self._blob, self._path)


def _hash_of(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError:
        return ""
    return digest.hexdigest()


def _copy(source: Path, target: Path, blob: Blob) -> None:
    try:
        data = source.open("rb")
    except FileNotFoundError:
        raise BlobMissingError(blob.key) from None
    with data, open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
        while chunk := data.read(CHUNK):
            file.write(chunk)
    target.chmod(0o500 if blob.executable else 0o400)
