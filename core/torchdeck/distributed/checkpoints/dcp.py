"""torch.distributed.checkpoint, asked the same way by every strategy."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from pathlib import Path

import torch
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from torchdeck.distributed.checkpoints.metadata import CheckedReader
from torchdeck.distributed.checkpoints.peers import Peers


def write(folder: Path, tensors: dict[str, torch.Tensor], peers: Peers) -> set[str]:
    """Write `tensors` into `folder`: rank r as `__r_….distcp`, rank 0 also `.metadata`; nothing is synced.

    Returns:
        The names of all tensors that the ranks together gave.
    """
    # what every rank holds whole comes from rank 0: replicas of running statistics differ and must not be
    # mixed
    planner = DefaultSavePlanner(
        flatten_state_dict=False, flatten_sharded_tensors=False, dedup_save_to_lowest_rank=True
    )
    saved = save(
        tensors,
        storage_writer=FileSystemWriter(folder, sync_files=False),
        planner=planner,
        process_group=peers.group,
        no_dist=peers.world_size == 1,
    )
    return set(saved.state_dict_metadata)


def read(folder: Path, files: Collection[str], tensors: dict[str, torch.Tensor], peers: Peers) -> None:
    """Fill `tensors` in place from a checkpoint, each rank reading what its layout needs."""
    load(
        tensors,
        storage_reader=CheckedReader(folder, files),
        planner=DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False),
        process_group=peers.group,
        no_dist=peers.world_size == 1,
    )


def files_needed(folder: Path, files: Collection[str], tensors: dict[str, torch.Tensor]) -> set[str]:
    """Of a checkpoint's files, those that `read` reads to fill `tensors` on this rank."""
    metadata = CheckedReader(folder, files).read_metadata()
    planner = DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    planner.set_up_planner(tensors, metadata, is_coordinator=False)
    places = metadata.storage_data or {}
    return {places[item.storage_index].relative_path for item in planner.create_local_plan().items}


def alone_is_fine() -> None:
    """Silence, for this process, what DCP warns of whenever a single rank saves or loads.

    Not around each call: filters of warnings are the process's, and a save may run beside training.
    """
    warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")
