"""Saves and loads a run's whole state.

One code path for a single process, DDP and FSDP2: torch.distributed.checkpoint writes each rank's shards. The
code around it makes a checkpoint complete (see `directory`) and verifiable (see `manifest`). Ranks agree
after every step of a save or load, so that a failure on one is the same `CheckpointError` on all.

A background save is the same save, written by a thread from a copy of the state.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from torchdeck.contract.checkpoints.listing import list_checkpoints
from torchdeck.contract.checkpoints.manifest import (
    FINAL_NAME,
    MANIFEST_VERSION,
    USUAL_VERSION,
    CheckpointError,
    FileEntry,
    Manifest,
    checkpoint_name,
)
from torchdeck.contract.free_space import inodes_left
from torchdeck.distributed.checkpoints.checkpoint_directory import CheckpointDirectory
from torchdeck.distributed.checkpoints.checkpoint_loading import load_all
from torchdeck.distributed.checkpoints.checkpoint_saving import write_all
from torchdeck.distributed.checkpoints.parts import Disks, find_disks
from torchdeck.distributed.checkpoints.peers import Peers, by_name, manifest_of, nothing
from torchdeck.distributed.checkpoints.retention import Retention
from torchdeck.distributed.checkpoints.snapshot import LoadedState, Snapshot, TrainState, take_snapshot
from torchdeck.distributed.checkpoints.tensors.training_tensors import Staging

__all__ = ["CheckpointError", "CheckpointStore", "LoadedState", "SaveTime", "TrainState"]

_CLOSING = 60.0
"""Maximum seconds that a closing store waits for a background save."""
_WORTH_SAYING = 1.0
"""Seconds of waiting for another save from which the wait is reported."""
_log = logging.getLogger(__name__)


class SaveTime(NamedTuple):
    """Duration of a save, in the background or not."""

    step: int
    seconds: float
    """From its beginning until it was on disk and complete."""


@dataclass(frozen=True)
class _Job:
    """One save."""

    step: int
    name: str
    metrics: Mapping[str, float]
    began: float = field(default_factory=time.monotonic)

    @property
    def final(self) -> bool:
        return self.name == FINAL_NAME


class CheckpointStore:
    """The checkpoints of one run, from inside its ranks; all ranks call the same methods together."""

    def __init__(
        self,
        directory: Path | None,
        retention: Retention,
        run_id: str,
        attempt: int,
        rank: int,
        world_size: int,
        strategy: str,
        *,
        timeout: float = 1800.0,
        replicas: int = 0,
    ) -> None:
        """Open `directory`; rank 0 creates it, locks it and removes the remains of interrupted saves.

        Args:
            directory: shared by all ranks; None: nothing is saved, and the store only loads.
            retention: rule for keeping checkpoints when a new one is complete.
            run_id: id of the run that saves.
            attempt: its attempt, from 1.
            rank: rank of this process.
            world_size: number of ranks.
            strategy: recorded in the manifest.
            timeout: seconds a rank waits for the others at each step of a save or load, and for a background
                save.
            replicas: number of other nodes that get a copy of a node's files, if nodes have their own disks.

        Raises:
            CheckpointError: the directory cannot be used (on rank 0).
        """
        self._directory = CheckpointDirectory(directory or Path())
        self._retention = retention
        self._run_id = run_id
        self._attempt = attempt
        self._strategy = strategy
        self._timeout = timeout
        self._replicas = replicas
        self._peers = Peers(rank, world_size, timeout)
        self._staging = Staging()
        self._writer = BackgroundWriter()
        self._times: SimpleQueue[SaveTime] = SimpleQueue()
        self._disks = Disks((0,) * world_size)
        if directory is not None:
            self._disks = self._open()

    def close(self) -> None:
        """Release the directory for another run; waits for a background save, but not for long."""
        try:
            self._writer.wait(_CLOSING)
        except CheckpointError as error:
            _log.warning("%s", error)
        self._directory.close()

    def leave(self) -> None:
        """End the group of the ranks, which all call this, as no save follows."""
        self._peers.leave()

    def save(
        self, state: TrainState, step: int, *, final: bool = False, metrics: Mapping[str, float] | None = None
    ) -> Path:
        """Save everything as `step_<step>`, or as `final`; it is on disk and complete when this returns.

        Args:
            state: state of training.
            step: optimizer steps done.
            final: name it `final`; it is never rotated out.
            metrics: metrics of an evaluation of this very state; for the manifest.

        Raises:
            CheckpointError: on every rank, with the reason, whether of this save or of the previous
                background save; existing checkpoints are still there.
        """
        self.wait()
        job = _Job(step, FINAL_NAME if final else checkpoint_name(step), metrics or {})
        self._write(job, lambda: take_snapshot(state, step, self._peers))
        return self._directory.path / job.name

    def save_in_background(
        self, state: TrainState, step: int, *, metrics: Mapping[str, float] | None = None
    ) -> None:
        """Begin to save the current state as `step_<step>`; training may continue when this returns.

        One save is written at a time: this first waits for the previous one. Errors are raised by the next
        call of `save`, `save_in_background` or `wait`; `failed` tells when one is needed.

        Raises:
            CheckpointError: the save before this one failed.
        """
        began = time.monotonic()
        self.wait()
        if time.monotonic() - began > _WORTH_SAYING:
            _log.warning(
                "the checkpoint of step %d waited %.1f s for the one before to be written: "
                "save less often, or to a faster disk",
                step,
                time.monotonic() - began,
            )
        self._peers.join()
        job = _Job(step, checkpoint_name(step), metrics or {})
        # a rank that cannot take part reports it in the background, where ranks agree on everything
        snapshot = _done_now(lambda: take_snapshot(state, step, self._peers, self._staging))
        self._writer.start(f"checkpoint {job.name}", lambda: self._write(job, snapshot.result))

    @property
    def failed(self) -> bool:
        """Return whether a background save failed on this rank and was not reported yet."""
        return self._writer.failed

    def wait(self) -> None:
        """Wait until no background save is running.

        Raises:
            CheckpointError: on every rank: it failed, or takes longer than the timeout.
        """
        self._writer.wait(self._timeout)

    def times(self) -> list[SaveTime]:
        """Return the durations of the saves completed since the last call."""
        return [self._times.get() for _ in range(self._times.qsize())]

    def load(self, folder: Path, state: TrainState) -> LoadedState:
        """Fill `state`'s model and optimizers, and this rank's random state, from the checkpoint in `folder`.

        All files are checked against the manifest's hashes before anything in them is read. Group options of
        the optimizers (learning rate, betas, …) are those of the checkpoint.

        Raises:
            CheckpointError: on every rank: it is damaged, or of another model or optimizer (nothing was
                changed then), or reading failed half-way (the model's state is undefined then).
        """
        self.wait()
        return load_all(Path(folder), state, self._peers)

    def _open(self) -> Disks:
        peers, directory = self._peers, self._directory
        if peers.world_size == 1:
            directory.open(self._run_id)
            return Disks((0,))
        what = "opening the checkpoint directory"
        peers.first(what, lambda: directory.open(self._run_id), nothing)
        disks = find_disks(directory.path, peers)
        if not disks.shared:
            read = by_name(manifest_of(directory.path))
            committed = peers.first(what, lambda: _by_node(directory.path), read)
            self._led(what, lambda: directory.open(self._run_id, elsewhere=committed), disks, but_first=True)
        return disks

    def _led(
        self, what: str, action: Callable[[], object], disks: Disks | None = None, *, but_first: bool = False
    ) -> None:
        """Run `action` on the leading ranks, each for the directory of its node; `but_first`: not on rank
        0.
        """
        rank = self._peers.rank
        leads = (disks or self._disks).leads(rank) and not (but_first and rank == 0)
        self._peers.step(what, lambda: action() if leads else None)

    def _write(self, job: _Job, take: Callable[[], Snapshot]) -> None:
        temporary = self._directory.path / f".tmp-{job.name}-{self._attempt}"
        try:
            node = self._disks.node(self._peers.rank)
            self._led("making its folder", lambda: self._directory.make_temporary(temporary, node or ""))
            written = write_all(temporary, take, self._peers, self._disks, self._replicas)
            manifest = Manifest(
                step=job.step,
                world_size=self._peers.world_size,
                strategy=self._strategy,
                run_id=self._run_id,
                attempt=self._attempt,
                created=time.time(),
                seconds=time.monotonic() - job.began,
                position=written.snapshot.position,
                model_fingerprint=written.snapshot.model_fingerprint,
                files=written.files,
                metrics=job.metrics,
                version=_version(written.files),
                node=node,
            )
            self._commit(temporary, job.name, manifest)
        except CheckpointError as error:
            raise CheckpointError(self._failed(error, temporary, job.name)) from error
        self._times.put(SaveTime(job.step, time.monotonic() - job.began))
        if self._disks.leads(self._peers.rank) and not job.final:
            self._directory.rotate(self._directory.path / job.name, self._retention)

    def _commit(self, temporary: Path, name: str, manifest: Manifest) -> None:
        """Commit once every node's part is in place. The first node's confirmation decides: the others follow
        at once, or, if they are killed in between, when they open the directory again.
        """
        what = "committing it"
        self._led(what, lambda: self._directory.place(temporary, name))

        def decide() -> str:
            self._directory.confirm(name, manifest)
            return manifest.text

        decided = self._peers.first(what, decide, manifest_of(self._directory.path / name))
        if not self._disks.shared:
            own = replace(decided, node=manifest.node)
            self._led(what, lambda: self._directory.confirm(name, own), but_first=True)

    def _failed(self, error: CheckpointError, temporary: Path, name: str) -> str:
        path = self._directory.path
        try:
            free = f"{shutil.disk_usage(path).free / 2**20:.0f} MiB are free there"
            free = f"no inodes left on the disk of {path}" if inodes_left(path) == 0 else free
        except OSError as gone:
            free = f"{path}: {gone.strerror}"
        if self._disks.leads(self._peers.rank):
            self._directory.discard(temporary, name)
        return (
            f"checkpoint {name} could not be saved to {path}: {error} ({free}); "
            "earlier checkpoints are untouched"
        )


def _version(files: Mapping[str, FileEntry]) -> int:
    """Return the oldest format that can represent `files`."""
    return MANIFEST_VERSION if any(entry.copies for entry in files.values()) else USUAL_VERSION


def _by_node(directory: Path) -> dict[str, str]:
    """Return the complete checkpoints in a directory that have files on several nodes, by name."""
    found = [info for info in list_checkpoints(directory) if info.complete and info.manifest is not None]
    return {
        info.path.name: info.manifest.text
        for info in found
        if info.manifest and info.manifest.node is not None
    }


def _done_now(take: Callable[[], Snapshot]) -> Future[Snapshot]:
    """Return a completed future with the result or exception of `take`."""
    outcome = Future[Snapshot]()
    try:
        outcome.set_result(take())
    except Exception as error:  # noqa: BLE001 - raised again by `result`
        outcome.set_exception(error)
    return outcome


# A thread that writes one checkpoint at a time while training continues.

_NICE = 10
"""Priority of the thread; 0 is usual, 19 the lowest. Neither the lowest nor SCHED_IDLE: a thread that holds
the GIL and gets no core blocks training, and a waiting thread cannot raise its priority again without
privileges.
"""


class BackgroundWriter:
    """Runs one task at a time concurrently with the caller.

    A thread, not a process: it dies with its rank, so that nothing of a killed attempt writes into the
    directory of the next. It needs no copy in shared memory. Nearly all of its time is spent copying, hashing
    and syncing, during which the GIL is free for training.
    """

    def __init__(self) -> None:
        self._what = ""
        self._began = 0.0
        self._outcome: Future[None] | None = None

    @property
    def busy(self) -> bool:
        """Return whether a task is running."""
        return self._outcome is not None and not self._outcome.done()

    @property
    def failed(self) -> bool:
        """Return whether the task failed, and `wait` has not reported it yet."""
        return self._outcome is not None and self._outcome.done() and self._outcome.exception() is not None

    def start(self, what: str, action: Callable[[], None]) -> None:
        """Start `action`; the previous one must have been waited for.

        Args:
            what: names it, as in "checkpoint step_00000100".
            action: function to run.
        """
        if self._outcome is not None:
            raise RuntimeError(f"{self._what} was not waited for")
        self._what, self._began = what, time.monotonic()
        self._outcome = outcome = Future[None]()
        # a daemon: a hung disk must not keep a failing rank alive
        threading.Thread(target=_do, args=(action, outcome), name="checkpoint-writer", daemon=True).start()

    def wait(self, limit: float) -> None:
        """Wait until no task is running.

        Args:
            limit: seconds.

        Raises:
            CheckpointError: the task failed, or is still running after `limit`.
        """
        outcome = self._outcome
        if outcome is None:
            return
        wait_for([outcome], limit)
        if not outcome.done():
            raise CheckpointError(
                f"{self._what} is still being written after {time.monotonic() - self._began:.0f} s"
            )
        self._outcome = None
        outcome.result()


def _do(action: Callable[[], None], outcome: Future[None]) -> None:
    with contextlib.suppress(OSError, AttributeError):
        # on Linux a thread has its own priority: if cores are scarce, training has precedence
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
    try:
        action()
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
        outcome.set_exception(error)
    else:
        outcome.set_result(None)
