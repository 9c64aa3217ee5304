"""Saving and loading a run's whole state.

One code path for a single process, DDP and FSDP2: torch.distributed.checkpoint writes each rank's shards;
around it lies what makes a checkpoint whole (see `directory`) and trustworthy (see `manifest`). Ranks agree
after every step of a save or load, so that a failure on one is the same `CheckpointError` on all.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from torchdeck.distributed.checkpoints.directory import CheckpointDirectory
from torchdeck.distributed.checkpoints.loading import load_all
from torchdeck.distributed.checkpoints.manifest import FINAL_NAME, CheckpointError, Manifest, checkpoint_name
from torchdeck.distributed.checkpoints.peers import Peers
from torchdeck.distributed.checkpoints.retention import Retention
from torchdeck.distributed.checkpoints.saving import write_all
from torchdeck.distributed.checkpoints.state import LoadedState, TrainState

__all__ = ["CheckpointError", "CheckpointStore", "LoadedState", "TrainState"]


class CheckpointStore:
    """The checkpoints of one run, from inside its ranks; all ranks call the same methods together."""

    def __init__(
        self,
        directory: Path | None,
        keep_last: int,
        run_id: str,
        attempt: int,
        rank: int,
        world_size: int,
        strategy: str,
        *,
        timeout: float = 1800.0,
    ) -> None:
        """Open `directory`; rank 0 makes it, locks it and removes what interrupted saves left there.

        Args:
            directory: shared by all ranks; None: nothing is saved, and the store only loads.
            keep_last: how many of the newest steps stay, at least 1.
            run_id: of the run that saves.
            attempt: of that run, from 1.
            rank: of this process.
            world_size: number of ranks.
            strategy: goes into the manifest.
            timeout: seconds a rank waits for the others at each step of a save or load.

        Raises:
            CheckpointError: the directory cannot be used (on rank 0).
            ValueError: `keep_last` is less than 1.
        """
        if keep_last < 1:
            raise ValueError(f"keep_last is {keep_last}: at least 1 checkpoint must be kept")
        self._directory = CheckpointDirectory(directory or Path())
        self._keep_last = keep_last
        self._run_id = run_id
        self._attempt = attempt
        self._strategy = strategy
        self._peers = Peers(rank, world_size, timeout)
        if rank == 0 and directory is not None:
            self._directory.open(run_id)

    def close(self) -> None:
        """Let another run have the directory."""
        self._directory.close()

    def save(self, state: TrainState, step: int, *, final: bool = False) -> Path:
        """Save everything as `step_<step>`, or as `final`; it is on disk and complete when this returns.

        Raises:
            CheckpointError: on every rank, with the reason; the checkpoints that were there are still there.
        """
        started = time.monotonic()
        name = FINAL_NAME if final else checkpoint_name(step)
        temporary = self._directory.path / f".tmp-{name}-{self._attempt}"
        try:
            self._peers.first("making its folder", lambda: self._directory.make_temporary(temporary))
            written = write_all(temporary, state, step, self._peers)
            manifest = Manifest(
                step=step,
                world_size=self._peers.world_size,
                strategy=self._strategy,
                run_id=self._run_id,
                attempt=self._attempt,
                created=time.time(),
                seconds=time.monotonic() - started,
                position=state.position,
                model_fingerprint=written.model_fingerprint,
                files=written.files,
            )
            self._peers.first("committing it", lambda: self._directory.commit(temporary, name, manifest))
        except CheckpointError as error:
            raise CheckpointError(self._failed(error, temporary, name)) from error
        folder = self._directory.path / name
        if self._peers.rank == 0 and not final:
            self._directory.rotate(folder, Retention(self._keep_last))
        return folder

    def load(self, folder: Path, state: TrainState) -> LoadedState:
        """Fill `state`'s model and optimizers, and this rank's random state, from the checkpoint in `folder`.

        All files are checked against the manifest's hashes before anything in them is read. Group options of
        the optimizers (learning rate, betas, …) are those of the checkpoint.

        Raises:
            CheckpointError: on every rank: it is damaged, or of another model or optimizer (nothing was
                changed then),
                or reading failed half-way (the model's state is undefined then).
        """
        return load_all(Path(folder), state, self._peers)

    def _failed(self, error: CheckpointError, temporary: Path, name: str) -> str:
        path = self._directory.path
        try:
            free = f"{shutil.disk_usage(path).free / 2**20:.0f} MiB are free there"
        except OSError as gone:
            free = f"{path}: {gone.strerror}"
        if self._peers.rank == 0:
            self._directory.discard(temporary, name)
        return (
            f"checkpoint {name} could not be saved to {path}: {error} ({free}); "
            "earlier checkpoints are untouched"
        )
