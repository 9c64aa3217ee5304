"""torch.distributed.checkpoint's files, written and read through its planners and storage.

Its `save` and `load` are not used: ranks would unpickle what the others plan and wrote. A rank reads what its
layout needs without communication. For a save, each rank reports its items to rank 0 in JSON
(`written_plans.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan

from torchdeck.distributed.checkpoints.answers import count, listed, text
from torchdeck.distributed.checkpoints.files.metadata import CheckedReader
from torchdeck.distributed.checkpoints.files.written_plans import (
    plan_from_json,
    plan_to_json,
    results_from_json,
    results_to_json,
)
from torchdeck.distributed.checkpoints.peers import Peers


def write(folder: Path, tensors: dict[str, torch.Tensor], peers: Peers) -> set[str]:
    """Write `tensors` into `folder`: rank r as `__r_….distcp`, rank 0 also `.metadata`; nothing is synced.

    Returns:
        The names of all tensors from all ranks.

    Raises:
        CheckpointError: on every rank.
    """
    save = _Save(folder, tensors, peers.rank)
    kept = peers.reduce_scatter("planning the tensors", save.plan, save.choose)
    names = peers.reduce_scatter("writing the tensors", lambda: save.write(kept), save.finish)
    return set(listed(text)(names))


class _Save:
    """One save, as one rank sees it; `choose` and `finish` run on rank 0."""

    def __init__(self, folder: Path, tensors: dict[str, torch.Tensor], rank: int) -> None:
        self._tensors = tensors
        self._rank = rank
        self._writer = FileSystemWriter(folder, sync_files=False)
        # tensors that every rank holds whole come from rank 0: replicas of running statistics differ and must
        # not be mixed
        self._planner = DefaultSavePlanner(
            flatten_state_dict=False, flatten_sharded_tensors=False, dedup_save_to_lowest_rank=True
        )
        self._plan = SavePlan([])
        self._chosen: list[SavePlan] = []
        self._metadata = Metadata({})

    def plan(self) -> Any:
        """Return the items this rank could write."""
        first = self._rank == 0
        self._planner.set_up_planner(self._tensors, self._writer.storage_meta(), is_coordinator=first)
        self._writer.set_up_storage_writer(first)
        self._plan = self._writer.prepare_local_plan(self._planner.create_local_plan())
        return plan_to_json(self._plan)

    def choose(self, plans: list[Any]) -> list[list[int]]:
        """Return the items of each rank's plan that it must write: each is written once."""
        given = [plan_from_json(plan) for plan in plans]
        self._chosen, self._metadata = self._planner.create_global_plan(given)
        replies = []
        for plan, chosen in zip(given, self._chosen, strict=True):
            indices = {item.index for item in chosen.items}
            replies.append([at for at, item in enumerate(plan.items) if item.index in indices])
        return replies

    def write(self, kept: Any) -> Any:
        """Write the items that rank 0 chose."""
        items = [self._plan.items[at] for at in listed(count)(kept)]
        # the storage names files by the index of a plan among those of all ranks
        plans = [replace(self._plan, items=items)] * (self._rank + 1)
        plan = self._planner.finish_plan(self._writer.prepare_global_plan(plans)[self._rank])
        return results_to_json(plan, self._writer.write_data(plan, self._planner).wait())

    def finish(self, results: list[Any]) -> list[list[str]]:
        """Write `.metadata`; return, for every rank, the names of all tensors."""
        found = [
            results_from_json(value, plan, rank)
            for rank, (value, plan) in enumerate(zip(results, self._chosen, strict=True))
        ]
        self._writer.finish(self._metadata, found)
        return [sorted(self._metadata.state_dict_metadata)] * len(results)


def read(folder: Path, files: Collection[str], tensors: dict[str, torch.Tensor], ranks: int = 1) -> None:
    """Fill `tensors` in place from a checkpoint: what the layout of this one of the `ranks` needs."""
    fill(tensors, CheckedReader(folder, files, len(tensors) * ranks))


def fill(tensors: dict[str, torch.Tensor], reader: CheckedReader) -> None:
    """Fill `tensors` in place using `reader`."""
    metadata = reader.read_metadata()
    planner = _load_planner(tensors, metadata)
    reader.set_up_storage_reader(metadata, is_coordinator=True)
    plan = reader.prepare_local_plan(planner.create_local_plan())
    reader.read_data(planner.finish_plan(plan), planner).wait()


def files_needed(
    folder: Path, files: Collection[str], tensors: dict[str, torch.Tensor], ranks: int = 1
) -> set[str]:
    """Return the files of a checkpoint that `read` needs to fill `tensors` on this rank."""
    metadata = CheckedReader(folder, files, len(tensors) * ranks).read_metadata()
    places = metadata.storage_data or {}
    items = _load_planner(tensors, metadata).create_local_plan().items
    return {places[item.storage_index].relative_path for item in items}


def _load_planner(tensors: dict[str, torch.Tensor], metadata: Metadata) -> DefaultLoadPlanner:
    planner = DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    planner.set_up_planner(tensors, metadata, is_coordinator=True)
    return planner
