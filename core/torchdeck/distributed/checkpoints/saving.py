"""One save: every rank fills its part of a folder, syncs and hashes it; what belongs together is gathered."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from torchdeck.distributed.checkpoints import dcp
from torchdeck.distributed.checkpoints.manifest import CheckpointError, FileEntry, hash_file
from torchdeck.distributed.checkpoints.metadata import METADATA_NAME
from torchdeck.distributed.checkpoints.model_state import model_fingerprint
from torchdeck.distributed.checkpoints.peers import Peers
from torchdeck.distributed.checkpoints.rank_file import rank_file_name, write_rank_file
from torchdeck.distributed.checkpoints.state import TrainState
from torchdeck.distributed.checkpoints.trainer_file import TRAINER_NAME, TrainerFile

MODEL_PREFIX = "model."


@dataclass(frozen=True)
class Written:
    """What a save put into its folder."""

    files: dict[str, FileEntry]
    model_fingerprint: str


def write_all(folder: Path, state: TrainState, step: int, peers: Peers) -> Written:
    """Write every rank's part of a checkpoint into `folder`; all of it is on disk when this returns.

    Raises:
        CheckpointError: on every rank.
    """
    prepared: list[tuple[bytes, dict[str, torch.Tensor], str]] = []
    peers.together("collecting the state", lambda: prepared.append(_prepare(state, step)))
    trainer, tensors, fingerprint = prepared[0]
    peers.collectively("writing the tensors", lambda: dcp.write(folder, tensors, peers))

    def finish() -> dict[str, FileEntry]:
        write_rank_file(folder, peers.rank, state.parts)
        if peers.rank == 0:
            (folder / TRAINER_NAME).write_bytes(trainer)
        return {name: _sync_and_hash(folder / name) for name in _own_files(folder, peers.rank)}

    parts = peers.together("writing the files", finish)
    files = {name: entry for part in parts for name, entry in part.items()}
    peers.first("gathering the files", lambda: _check_visible(folder, files))
    return Written(files, fingerprint)


def _prepare(state: TrainState, step: int) -> tuple[bytes, dict[str, torch.Tensor], str]:
    parts = state.parts
    listing = parts.listing()
    trainer = TrainerFile(
        step=step,
        position=state.position,
        scheduler=state.scheduler_state,
        scaler=state.scaler_state,
        extra=state.extra,
        model=listing,
        optimizers=parts.describe_optimizers(),
    )
    tensors = {MODEL_PREFIX + name: tensor for name, tensor in parts.model().items()}
    tensors |= parts.optimizer()
    return trainer.render(), tensors, model_fingerprint(listing)


def _own_files(folder: Path, rank: int) -> list[str]:
    names = [path.name for path in folder.glob(f"__{rank}_*")] + [rank_file_name(rank)]
    return [*names, METADATA_NAME, TRAINER_NAME] if rank == 0 else names


def _sync_and_hash(path: Path) -> FileEntry:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return hash_file(path)


def _check_visible(folder: Path, files: dict[str, FileEntry]) -> None:
    for name, entry in files.items():
        path = folder / name
        if not path.exists() or path.stat().st_size != entry.size:
            raise CheckpointError(
                f"{name} was written by its rank but is not in {folder} for rank 0: "
                "checkpoint.directory must be a folder that all nodes share"
            )
