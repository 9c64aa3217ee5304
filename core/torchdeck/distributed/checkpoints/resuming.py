"""Resumes from the newest valid checkpoint of a directory, all ranks from the same one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn
from torch.optim import Optimizer

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.checkpoints.choose import Refused, all_damaged, candidates, summary
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.contract.checkpoints.verification import verify_files
from torchdeck.distributed.checkpoints.checkpoint_loading import load_all, shared_manifest
from torchdeck.distributed.checkpoints.parts import gathered
from torchdeck.distributed.checkpoints.peers import Peers, count, file_name, listed, text
from torchdeck.distributed.checkpoints.snapshot import LoadedState, Sharing, TrainState
from torchdeck.distributed.group import processes

TIMEOUT = 1800.0
"""Seconds a rank waits for the others at each step of a save or load."""
_log = logging.getLogger(__name__)


@arguments()
def auto_resume(
    directory: str | Path,
    model: nn.Module,
    optimizer: Optimizer | Sequence[Optimizer],
    *,
    strategy: Sharing | None = None,
    run_id: str | None = None,
    timeout: float = TIMEOUT,
) -> LoadedState | None:
    """Load model, optimizers and this rank's random state from the newest intact checkpoint.

    All ranks call it. Rank 0 lists the checkpoints, all ranks hash the files of the newest one, and if a
    file is damaged they try the one before. Skipped checkpoints are logged and in the result.

    Args:
        directory: folder of the checkpoints; it need not exist.
        model: model to load into, made and wrapped as for saving; with `strategy`, as given to its
            `wrap_model`.
        optimizer: one, or several in a fixed order, to load into.
        strategy: the strategy of the ranks. Default: model and optimizers hold the whole state, as in a
            single process, under DistributedDataParallel and under FSDP2.
        run_id: use only checkpoints that this run saved. Default: those of any run.
        timeout: seconds that a rank waits for the others to call it too, and in each phase.

    Returns:
        The rest of the saved state; None if there is no checkpoint, and nothing was changed.

    Raises:
        CheckpointError: on every rank: all checkpoints are damaged, the newest intact one is of another
            model or optimizer, or a rank did not call this; the message names it.
    """
    peers = peers_of(strategy, timeout)
    peers.call("auto_resume")
    loaded = resume_newest(Path(directory), train_state(model, optimizer, strategy), peers, run_id)
    peers.leave()
    return loaded


def resume_newest(
    directory: Path, state: TrainState, peers: Peers, run_id: str | None = None
) -> LoadedState | None:
    """Resume as `auto_resume` does, for callers with a state and peers."""
    listings = peers.together(
        f"looking for checkpoints in {directory}",
        lambda: [[info.path.name, max(0, info.step), info.why] for info in candidates(directory, run_id)],
        listed(_candidate),
    )
    refused: list[Refused] = []
    for name, why in _merged(listings):
        folder = directory / name
        problems = [why] if why else _problems(folder, peers)
        if not problems:
            loaded = load_all(folder, state, peers, hashed=True)
            return replace(loaded, folder=folder, refused=tuple(refused))
        refused.append(Refused(folder, summary(problems)))
        if peers.rank == 0:
            _log.warning("checkpoint %s is passed over: %s", folder, refused[-1].why)
    if refused:
        raise all_damaged(directory, refused)
    return None


def train_state(
    model: nn.Module, optimizer: Optimizer | Sequence[Optimizer], strategy: Sharing | None
) -> TrainState:
    """Return model and optimizers as a checkpoint sees them."""
    optimizers = [optimizer] if isinstance(optimizer, Optimizer) else list(optimizer)
    tensors = None if strategy is None else strategy.tensors(model, optimizers)
    return TrainState(model, optimizers, tensors=tensors)


def peers_of(strategy: Sharing | None, timeout: float) -> Peers:
    """Return the ranks of `strategy`, or else those of torch.distributed or the launcher's variables."""
    if strategy is None:
        return Peers(processes.get_rank(), processes.get_world_size(), timeout)
    return Peers(strategy.rank, strategy.world_size, timeout, strategy.seen_elsewhere)


class _Candidate(NamedTuple):
    """A checkpoint as one rank sees it."""

    name: str
    step: int
    why: str
    """Its fault."""


def _candidate(value: Any) -> _Candidate:
    if type(value) is not list or len(value) != 3:
        raise ValueError("it is no checkpoint's name, step and what is wrong with it")
    return _Candidate(file_name(value[0]), count(value[1]), text(value[2]))


def _merged(listings: Sequence[Sequence[_Candidate]]) -> list[tuple[str, str]]:
    """Return names, newest first, with the fault of each; empty if it is valid on some node."""
    found: dict[str, _Candidate] = {}
    for candidate in (candidate for listing in listings for candidate in listing):
        known = found.get(candidate.name)
        if known is None or (known.why and not candidate.why):
            found[candidate.name] = candidate
    newest_first = sorted(found.values(), key=lambda candidate: -candidate.step)
    return [(candidate.name, candidate.why) for candidate in newest_first]


def _problems(folder: Path, peers: Peers) -> list[str]:
    """Return the faults of a checkpoint, the same on every rank."""
    what = f"checking checkpoint {folder}"
    manifest = shared_manifest(what, folder, peers)
    if manifest.node is not None:
        try:
            with gathered(folder, manifest, peers):
                return []
        except CheckpointError as error:
            return [str(error)]
    # largest first, assigned round-robin: each file is hashed by one rank, with about equal work
    names = sorted(manifest.files, key=lambda name: (-manifest.files[name].size, name))
    share = names[peers.rank :: peers.world_size]
    found = peers.together(what, lambda: verify_files(folder, manifest, share), listed(text))
    return [problem for part in found for problem in part]
