"""Loads a checkpoint: verify everything, compare with this run, then read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from torchdeck.contract.checkpoints.manifest import CheckpointError, Manifest, read_manifest
from torchdeck.contract.checkpoints.verification import verify_files
from torchdeck.distributed.checkpoints.files import dcp
from torchdeck.distributed.checkpoints.files.metadata import METADATA_NAME
from torchdeck.distributed.checkpoints.files.rank_file import derive_rank, rank_file_name, restore_rank
from torchdeck.distributed.checkpoints.files.trainer_file import TRAINER_NAME, TrainerFile, read_trainer_file
from torchdeck.distributed.checkpoints.parts import Parts, gathered
from torchdeck.distributed.checkpoints.peers import Peers, manifest_of, number, optional
from torchdeck.distributed.checkpoints.snapshot import MODEL_PREFIX, LoadedState, TrainState
from torchdeck.distributed.checkpoints.tensors.model_state import first_difference, model_fingerprint


def load_all(folder: Path, state: TrainState, peers: Peers, *, hashed: bool = False) -> LoadedState:
    """Fill `state` and this rank's random state from the checkpoint in `folder`.

    Args:
        folder: folder of the checkpoint.
        state: state to fill.
        peers: all ranks.
        hashed: these ranks have just hashed the files in a folder that they share.

    Raises:
        CheckpointError: on every rank.
    """
    what = f"loading checkpoint {folder}"
    manifest = shared_manifest(what, folder, peers)
    if manifest.node is None:
        manifests = peers.together(what, lambda: read_manifest(folder).text, manifest_of(folder))
        if any(other != manifest for other in manifests):
            raise CheckpointError(f"{what} failed: ranks see different files there; all nodes must share it")
        if not hashed:
            peers.step(what, lambda: _verify_share(folder, manifest, peers))
        return _fill(folder, manifest, state, peers, what)
    with gathered(folder, manifest, peers) as parts:
        rank_file = rank_file_name(peers.rank if manifest.world_size == peers.world_size else 0)
        parts.bring([METADATA_NAME, TRAINER_NAME, rank_file])
        return _fill(parts.folder, manifest, state, peers, what, parts)


def _fill(
    folder: Path, manifest: Manifest, state: TrainState, peers: Peers, what: str, parts: Parts | None = None
) -> LoadedState:
    """Fill from verified files; `parts`: files with tensors, which are fetched here first."""
    plan = peers.step(what, lambda: _compare(folder, manifest, state))
    files, ranks = manifest.files, peers.world_size
    if parts is not None:
        needed = peers.step(what, lambda: dcp.files_needed(folder, files, plan.places, ranks))
        parts.bring(needed)
    peers.step(what, lambda: dcp.read(folder, files, plan.places, ranks))
    peers.step(what, lambda: _put_back(folder, manifest, state, plan, peers))
    trainer = plan.trainer
    return LoadedState(
        step=trainer.step,
        position=trainer.position,
        scheduler_state=trainer.scheduler,
        scaler_state=trainer.scaler,
        extra=trainer.extra,
        rng_restored=manifest.world_size == peers.world_size,
        notice=_notice(manifest, peers),
    )


@dataclass(frozen=True)
class _Plan:
    """Contents of a verified checkpoint, and the memory to read its tensors into."""

    trainer: TrainerFile
    model: dict[str, torch.Tensor]
    optimizer: dict[str, torch.Tensor]

    @property
    def places(self) -> dict[str, torch.Tensor]:
        return {MODEL_PREFIX + name: tensor for name, tensor in self.model.items()} | self.optimizer


def shared_manifest(what: str, folder: Path, peers: Peers) -> Manifest:
    """Return the manifest in `folder`, the newest if ranks see several; raises CheckpointError on every rank.

    A replacement node has none, and a node that was lost for a while may have another.
    """

    def created() -> float | None:
        try:
            return read_manifest(folder).created
        except CheckpointError:
            return None

    found = peers.together(what, created, optional(number))
    newest = max((time for time in found if time is not None), default=None)
    owner = 0 if newest is None else found.index(newest)
    return peers.first(what, lambda: read_manifest(folder).text, manifest_of(folder), owner)


def _verify_share(folder: Path, manifest: Manifest, peers: Peers) -> None:
    # largest first, assigned round-robin: each file is hashed by one rank, with about equal work
    names = sorted(manifest.files, key=lambda name: (-manifest.files[name].size, name))
    problems = verify_files(folder, manifest, names[peers.rank :: peers.world_size])
    if problems:
        raise CheckpointError("; ".join(problems))


def _compare(folder: Path, manifest: Manifest, state: TrainState) -> _Plan:
    trainer = read_trainer_file(folder)
    if model_fingerprint(trainer.model) != manifest.model_fingerprint or trainer.step != manifest.step:
        raise CheckpointError("its manifest and its trainer.json are not of the same save")
    trainer.check_sizes(manifest.size)
    parts = state.parts
    difference = first_difference(trainer.model, parts.listing())
    if difference is not None:
        raise CheckpointError(
            f"it is of another model: {difference}; resume with the model it was saved from"
        )
    parts.check_same_optimizers(trainer.optimizers)
    return _Plan(trainer, parts.model_places(), parts.optimizer_places(trainer.optimizers))


def _put_back(folder: Path, manifest: Manifest, state: TrainState, plan: _Plan, peers: Peers) -> None:
    parts = state.parts
    parts.restore(plan.model, plan.optimizer, plan.trainer.optimizers)
    # last of all: nothing after it may draw a random number
    if manifest.world_size == peers.world_size:
        restore_rank(folder, peers.rank, parts)
    else:
        derive_rank(folder, peers.rank, peers.world_size)


def _notice(manifest: Manifest, peers: Peers) -> str:
    if manifest.world_size == peers.world_size:
        return ""
    return (
        f"the checkpoint was saved at world size {manifest.world_size} and continues at {peers.world_size}: "
        "weights are bit-identical, random numbers are derived again, "
        "and later losses may differ in the last digits"
    )
