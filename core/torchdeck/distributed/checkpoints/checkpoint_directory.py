"""Rank 0's work in a checkpoint directory: lock, clean, commit, delete, rotate. Standard library only.

After every step, a crash at any moment loses no complete checkpoint and makes no partial one appear complete:

- A save writes into `.tmp-NAME-ATTEMPT`, which is renamed to NAME only when all its files are on disk. It
  becomes a checkpoint with its manifest, committed last.
- A former NAME is first moved to `.replaced-NAME`, and stays a checkpoint there until the new one is
  committed.
- A deletion first renames to `.deleted-NAME-…`, so that a half-deleted one has no checkpoint's name.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import logging
import os
import secrets
import shutil
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torchdeck.contract.atomic import sync_folder, write_bytes
from torchdeck.contract.checkpoints.listing import inspect, is_leftover, list_checkpoints
from torchdeck.contract.checkpoints.manifest import (
    MANIFEST_NAME,
    UNCOMMITTED_NAME,
    CheckpointError,
    Manifest,
)
from torchdeck.distributed.checkpoints.retention import Retention

MARK_PREFIX = ".shared-"
"""Prefix of files by which ranks find out whether they share the directory."""
_LOCK_NAME = ".lock"
_LOCK_POLL = 0.1
_log = logging.getLogger(__name__)


class CheckpointDirectory:
    """The directory of one run's checkpoints, for its only writer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None
        self._claim = Claim(path)

    def open(
        self, run_id: str, *, wait: float = 10.0, elsewhere: Mapping[str, Manifest] | None = None
    ) -> None:
        """Create the directory, become its only writer, and remove the remains of interrupted saves.

        Args:
            run_id: reported to any process that finds the directory locked.
            wait: seconds to wait for a former writer to exit.
            elsewhere: the checkpoints, by name, committed on the first node, if each node has its own
                directory:
                those placed here and not confirmed are confirmed.

        Raises:
            CheckpointError: it cannot be created or written to, or another run is saving into it.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(self.path.parent)
            self._take_lock(run_id, wait)
            self._claim.take(run_id)
        except OSError as error:
            raise CheckpointError(
                f"checkpoints cannot be written to {self.path}: {error.strerror}; choose another directory"
            ) from error
        for name, manifest in (elsewhere or {}).items():
            self._confirm_late(name, manifest)
        self.clean()

    def close(self) -> None:
        """Release the directory for another writer."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def clean(self) -> list[Path]:
        """Delete the remains of interrupted saves and deletions: only folders with Torchdeck's temporary
        names or marker.
        """
        leftovers = [path for path in self.path.iterdir() if is_leftover(path)]
        for path in leftovers:
            _remove_tree(path)
        for mark in self.path.glob(f"{MARK_PREFIX}*"):
            mark.unlink(missing_ok=True)
        return leftovers

    def make_temporary(self, folder: Path, node: str = "") -> None:
        """Create `folder` (`.tmp-NAME-ATTEMPT`), empty except for the marker that it is Torchdeck's and not
        committed.

        Args:
            folder: the folder.
            node: node of this part of the checkpoint, for the marker; empty if all nodes share it.

        Raises:
            CheckpointError: the directory now belongs to another writer.
            OSError: it cannot be created.
        """
        self._claim.check()
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(mode=0o700)
        (folder / UNCOMMITTED_NAME).touch(mode=0o600)
        (folder / UNCOMMITTED_NAME).write_text(node)

    def commit(self, temporary: Path, name: str, manifest: Manifest) -> Path:
        """Turn `temporary`, whose files are all on disk, into checkpoint `name`.

        Raises:
            CheckpointError: the directory now belongs to another writer.
            OSError: a former checkpoint of that name is still valid then.
        """
        self.place(temporary, name)
        return self.confirm(name, manifest)

    def place(self, temporary: Path, name: str) -> None:
        """Do the first half of `commit`: all files are in place, but it is not a checkpoint yet."""
        target = self.path / name
        aside = self.path / f".replaced-{name}"
        sync_folder(temporary)
        self._claim.check()
        if target.exists():
            self._move_aside(target, aside)
        temporary.rename(target)
        sync_folder(self.path)

    def confirm(self, name: str, manifest: Manifest) -> Path:
        """Do the second half of `commit`: the manifest makes what was placed a checkpoint."""
        target, aside = self.path / name, self.path / f".replaced-{name}"
        self._claim.check()
        write_bytes(target / MANIFEST_NAME, manifest.render())
        (target / UNCOMMITTED_NAME).unlink()
        if aside.exists():
            self.delete(aside)
        return target

    def discard(self, temporary: Path, name: str) -> None:
        """Remove the remains of a failed save, and move a former checkpoint back; never raises.

        If there is another writer, the files may be its own and stay.
        """
        try:
            self._claim.check()
        except (CheckpointError, OSError) as error:
            _log.warning("%s stays: %s", temporary, error)
            return
        for folder in (temporary, self.path / name):
            if is_leftover(folder):
                _remove_tree(folder)
        aside, target = self.path / f".replaced-{name}", self.path / name
        if aside.exists() and not target.exists():
            try:
                aside.rename(target)
            except OSError as error:
                _log.warning("checkpoint %s stays under that name: %s", aside, error)

    def delete(self, folder: Path) -> None:
        """Delete a checkpoint; it becomes invalid before its first file is removed. Never raises OSError."""
        name = folder.name.removeprefix(".replaced-")
        try:
            tombstone = self._unused(f".deleted-{name}")
            folder.rename(tombstone)
            sync_folder(self.path)
        except OSError as error:
            _log.warning("checkpoint %s could not be deleted: %s", folder, error)
            return
        _remove_tree(tombstone)

    def rotate(self, newest: Path, retention: Retention) -> list[Path]:
        """Delete the checkpoints that `retention` allows now that `newest` exists.

        `final`, checkpoints of later steps (of an abandoned history; they are deleted when their step is
        reached again) and foreign folders are left alone. Call it only once `newest` is committed; it never
        raises.
        """
        try:
            self._claim.check()
            found = list_checkpoints(self.path)
        except (CheckpointError, OSError) as error:
            _log.warning("old checkpoints stay: %s", error)
            return []
        surplus = retention.surplus(found, int(newest.name.removeprefix("step_")))
        for info in surplus:
            self.delete(info.path)
        return [info.path for info in surplus]

    def _confirm_late(self, name: str, manifest: Manifest) -> None:
        folder = self.path / name
        if not (folder / UNCOMMITTED_NAME).exists() or (folder / MANIFEST_NAME).exists():
            return
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        marked = (folder / UNCOMMITTED_NAME).read_text(errors="replace")
        for node in [marked] if marked in manifest.parts else manifest.parts:
            part = replace(manifest, node=node)
            if all(sizes.get(file) == entry.size for file, entry in part.files_here.items()):
                for file in sizes.keys() - part.files_here.keys() - {UNCOMMITTED_NAME}:
                    (folder / file).unlink()  # of a manifest that was being written
                self.confirm(name, part)
                return

    def _unused(self, stem: str) -> Path:
        names = (self.path / f"{stem}-{number}" for number in itertools.count(1))
        return next(path for path in names if not path.exists())

    def _move_aside(self, target: Path, aside: Path) -> None:
        info = inspect(target)
        if info is None or not info.complete:
            self.delete(target)
            return
        if aside.exists():
            self.delete(aside)
        target.rename(aside)

    def _take_lock(self, run_id: str, wait: float) -> None:
        # a POSIX lock, not flock: forked data-loader children that outlive their rank must not hold it
        descriptor = os.open(self.path / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        limit = time.monotonic() + wait
        while True:
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP):
                    break  # a file system without locks: only the claim protects
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    os.close(descriptor)
                    raise
                if time.monotonic() > limit:
                    found = os.pread(descriptor, 4096, 0).decode("utf-8", "replace").strip()
                    os.close(descriptor)
                    raise CheckpointError(
                        f"another run is saving checkpoints into {self.path} ({found}): stop it, "
                        "or choose another directory"
                    ) from None
            time.sleep(_LOCK_POLL)
        os.ftruncate(descriptor, 0)
        holder = {"run_id": run_id, "host": socket.gethostname(), "pid": os.getpid()}
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        self._lock = descriptor


def _remove_tree(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except OSError as error:
        _log.warning("%s could not be removed (the next start tries again): %s", folder, error)


# Current writer of a checkpoint directory, as a file in it. Standard library only. A lock alone is not
# enough: some file systems have none. A file server may also revoke the lock of a silent node and give it to
# the next, while ranks are still alive there (launch.unattended = "continue"). They detect that by this file,
# before they commit or delete anything.

CLAIM_NAME = ".writer"


class Claim:
    """Record of one writer in `directory`; the last one wins."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / CLAIM_NAME
        self._mine: bytes | None = None
        self._wanted_for: str | None = None
        """The run of a writer that found no room to say that it is there."""

    def take(self, run_id: str) -> None:
        """Become the writer in place of any other. On a full disk there is none, so that space can be freed
        there.

        Raises:
            OSError: the directory cannot be written to.
        """
        said = {"run_id": run_id, "host": socket.gethostname(), "pid": os.getpid()}
        mine = json.dumps({**said, "token": secrets.token_hex(8)}).encode()
        try:
            write_bytes(self._path, mine)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._path.unlink(missing_ok=True)  # the former writer detects that it lost the claim
            self._wanted_for = run_id
            return
        self._mine, self._wanted_for = mine, None

    def check(self) -> None:
        """Check that the directory is still this writer's, or was never claimed.

        Raises:
            CheckpointError: another writer has opened it since.
            OSError: it cannot be read.
        """
        if self._mine is None:
            self._take_late()
            return
        found = self._path.read_bytes()
        if found != self._mine:
            raise self._taken(found)

    def _take_late(self) -> None:
        """Claim now if there was no space before, unless another writer has come since."""
        if self._wanted_for is None:
            return
        if self._path.exists():
            raise self._taken(self._path.read_bytes())
        self.take(self._wanted_for)

    def _taken(self, by: bytes) -> CheckpointError:
        return CheckpointError(
            f"another process has begun to save into {self._path.parent} since ({_describe(by)}): "
            "this one saves nothing there any more"
        )


def _describe(claim: bytes) -> str:
    try:
        said = json.loads(claim)
        return f"run {said['run_id']}, pid {said['pid']} on {said['host']}"
    except (ValueError, KeyError, TypeError):
        return "it does not say who"
