"""A DeepSpeed training as checkpoints see it: whole fp32 tensors by name, as under any other strategy.

DeepSpeed's own checkpoints, which are pickles, are neither written nor read.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from torchdeck.contract.bounded_file import read_bounded
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.tensors.model_state import (
    Listing,
    bare_name,
    local_buffers,
    model_tensors,
    restore_buffers,
)
from torchdeck.distributed.checkpoints.tensors.optimizer_state import (
    check_same_optimizers,
    describe_optimizers,
    restored_group,
    state_key,
)
from torchdeck.distributed.strategies.deepspeed.partitions import Partitions
from torchdeck.distributed.strategies.deepspeed.unpartitioned import (
    Whole,
    is_spread,
    made_state,
    states_by_group,
)


class DeepSpeedTensors:
    """Weights and optimizer state held in an engine's partitions.

    A save gathers each tensor on one rank, with names assigned round-robin, so a rank holds 1/N of the total
    in host memory. A load reads every tensor whole on every rank, which then keeps its pieces.
    """

    def __init__(self, model: nn.Module, engine: Any, whole: Whole, rank: int, world_size: int) -> None:
        self._model = model
        self._whole = whole
        self._rank = rank
        self._world_size = world_size
        self._device = engine.device
        self._stage = int(engine.zero_optimization_stage())
        self._params = {
            bare_name(name): param for name, param in model.named_parameters(remove_duplicate=False)
        }
        sizes = {bare_name(name): param.numel() for name, param in whole.skeleton.named_parameters()}
        self._trained = [name for name, size in sizes.items() if size and self._params[name].requires_grad]
        self._partitions = Partitions(engine, {name: self._params[name] for name in self._trained})

    def gradients(self) -> list[Tensor]:
        """Return this rank's part of the averaged gradients."""
        return self._partitions.gradients()

    def pieces(self) -> Iterator[tuple[str, Tensor, Tensor | None]]:
        """Yield the name and this rank's piece of master weight and averaged gradient of each trained
        parameter.
        """
        return self._partitions.pieces()

    @torch.no_grad()
    def set_master_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copy this rank's pieces of `weights` into the optimizer's tensors; the model's own weights are
        unchanged.
        """
        flat = self._partitions.flat
        for name in self._trained:
            self._scatter(name, weights[name], flat)

    def listing(self) -> Listing:
        return self._whole.listing

    def model(self) -> dict[str, Tensor]:
        first = {param: name for name, param in reversed(self._params.items())}
        found: dict[str, Tensor] = {}
        for index, (name, (shape, dtype)) in enumerate(self._whole.listing.items()):
            owner = index % self._world_size if name in self._params else 0
            param = self._params.get(name)
            if param is None:
                value: Tensor | None = model_tensors(self._model)[name]
            elif first[param] in self._trained:
                value = self._gather(first[param], self._partitions.flat, shape, owner)
            else:
                value = self._frozen(param)
            if owner == self._rank and value is not None:
                found[name] = value.detach().to("cpu", getattr(torch, dtype), copy=True)
        return found

    def optimizer(self) -> dict[str, Tensor]:
        flat = self._partitions.flat
        group_of = {id(p): g for g, group in enumerate(self._groups) for p in group["params"]}
        twins = dict(self._whole.skeleton.named_parameters())
        states, found = states_by_group(self._partitions), {}
        for index, name in enumerate(self._trained):
            owner = index % self._world_size
            state = states.get(group_of.get(id(twins[name]), -1), {})
            for key, value in state.items():
                if is_spread(value):
                    spread = [self._partitions.state.get(part, {}).get(key, part) for part in flat]
                    whole = self._gather(name, spread, tuple(twins[name].shape), owner)
                else:
                    whole = value if isinstance(value, Tensor) else None
                if owner == self._rank and whole is not None:
                    found[state_key(0, name, key)] = whole.detach().to("cpu", copy=True)
        return found

    def alike(self) -> tuple[Collection[str], Collection[str]]:
        return (), ()  # already distributed

    def describe_optimizers(self) -> list[dict[str, Any]]:
        return describe_optimizers(self._whole.skeleton, [self._whole.described(self._partitions)])

    def check_same_optimizers(self, saved: Sequence[Mapping[str, Any]]) -> None:
        check_same_optimizers(self._whole.skeleton, [self._whole.described(self._partitions)], saved)

    def model_places(self) -> dict[str, Tensor]:
        return {
            name: torch.zeros(shape, dtype=getattr(torch, dtype))
            for name, (shape, dtype) in self._whole.listing.items()
        }

    def optimizer_places(self, saved: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        return {
            state_key(index, name, key): torch.zeros(spec["shape"], dtype=getattr(torch, spec["dtype"]))
            for index, item in enumerate(saved)
            for name, state in item["state"].items()
            for key, spec in state.items()
            if "shape" in spec
        }

    @torch.no_grad()
    def restore(
        self,
        model: dict[str, Tensor],
        optimizer: dict[str, Tensor],
        saved: Sequence[Mapping[str, Any]],
    ) -> None:
        self.set_master_weights(model)
        for name, param in self._params.items():
            if not param.requires_grad:
                self._set_frozen(param, model[name])
        restore_buffers(self._model, model)
        self._partitions.publish()
        self._restore_state(optimizer, saved[0])
        for live, current, stored in zip(
            self._partitions.groups, self._groups, saved[0]["groups"], strict=True
        ):
            options = restored_group(current, stored, [])
            live.update({key: value for key, value in options.items() if key != "params"})

    def buffers(self) -> dict[str, Tensor]:
        return local_buffers(self._model)

    def restore_buffers(self, saved: Mapping[str, Tensor]) -> None:
        restore_buffers(self._model, saved)

    @property
    def _groups(self) -> list[dict[str, Any]]:
        return self._whole.described(self._partitions).param_groups

    def _gather(
        self, name: str, sources: Sequence[Tensor], shape: tuple[int, ...], owner: int
    ) -> Tensor | None:
        """Gather all of a parameter from `sources`, which are laid out like the partitions; on `owner`
        alone.
        """
        whole = torch.zeros(shape, dtype=sources[0].dtype, device=self._device)
        for fragment in self._partitions.fragments(name):
            fragment.of_whole(whole).copy_(fragment.of(sources[fragment.partition].detach()))
        # every byte is zero on all ranks but one, so the sum preserves it whatever number it belongs to
        dist.reduce(whole.view(-1).view(torch.uint8), dst=owner)
        return whole if owner == self._rank else None

    def _scatter(self, name: str, whole: Tensor, targets: Sequence[Tensor]) -> None:
        for fragment in self._partitions.fragments(name):
            fragment.of(targets[fragment.partition].detach()).copy_(fragment.of_whole(whole))

    def _frozen(self, param: nn.Parameter) -> Tensor:
        if not hasattr(param, "ds_id"):
            return param.detach()
        with importlib.import_module("deepspeed").zero.GatheredParameters([param]):
            return param.detach().clone()

    def _set_frozen(self, param: nn.Parameter, value: Tensor) -> None:
        if not hasattr(param, "ds_id"):
            param.copy_(value)
            return
        with importlib.import_module("deepspeed").zero.GatheredParameters([param], modifier_rank=0):
            param.copy_(value)

    def _restore_state(self, tensors: Mapping[str, Tensor], saved: Mapping[str, Any]) -> None:
        """Give each partition the state of its parameters, creating it if there is none yet."""
        flat, state = self._partitions.flat, self._partitions.state
        state.clear()
        for index, partition in enumerate(flat):
            group = self._partitions.group_of(index)
            names = [name for name in saved["groups"][group]["params"] if name in self._trained]
            made = made_state(partition, self._partitions.groups[group], names, saved["state"], tensors)
            if made:
                state[partition] = made
        for name in self._trained:
            for key, spec in saved["state"].get(name, {}).items():
                if spec.get("like_parameter"):
                    spread = [state[part][key] if part in state else part for part in flat]
                    self._scatter(name, tensors[state_key(0, name, key)], spread)


# Weights from a checkpoint written by DeepSpeed itself: pickles, which a Torchdeck run never reads.
#
# Its folder, as `engine.save_checkpoint` leaves it: `latest`, which names a sibling folder containing
# `mp_rank_…_model_states.pt` (or `zero_pp_rank_…_model_states.pt` of stage 3) and `…_optim_states.pt`.

_STATES = "*_model_states.pt"
_LONGEST_NAME = 4096
"""Bytes."""


def is_deepspeed(folder: Path) -> bool:
    """Return whether `folder` appears to be a DeepSpeed save folder, or one of its step folders."""
    return any(folder.glob(_STATES)) or any(folder.glob(f"*/{_STATES}"))


def read_deepspeed(folder: Path, *, trusted: bool) -> dict[str, torch.Tensor]:
    """Return the full fp32 weights of a ZeRO 1, 2 or 3 checkpoint, by name and on the CPU.

    DeepSpeed's own code assembles them from its ranks' partitions.

    Args:
        folder: DeepSpeed's save folder, of which the newest step is read; or the folder of one step.
        trusted: the user knows who wrote it: reading executes code in it.

    Raises:
        CheckpointError: it is not trusted, DeepSpeed is not installed, or nothing can be read.
    """
    folder = folder.absolute()
    if not is_deepspeed(folder):
        raise CheckpointError(f"{folder} is no checkpoint of DeepSpeed's: it has no {_STATES}")
    if not trusted:
        raise CheckpointError(
            f"{folder} was written by DeepSpeed: its .pt files are Python pickles, which can run any code "
            "when they are read; if they come from your own runs or from someone you trust, say --trust"
        )
    if importlib.util.find_spec("deepspeed") is None:
        raise CheckpointError(
            f"reading {folder} takes DeepSpeed, which {sys.executable} does not have: "
            "`pip install 'torchdeck[deepspeed]'` there"
        )
    try:
        # it prints progress to stdout
        with contextlib.redirect_stdout(sys.stderr):
            weights = _consolidate(*_place(folder))
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(f"{folder} cannot be read: {type(error).__name__}: {error}") from error
    return {name: tensor.detach().to("cpu", torch.float32).contiguous() for name, tensor in weights.items()}


def _place(folder: Path) -> tuple[Path, str]:
    """Return DeepSpeed's save folder, and the name of a step in it."""
    if any(folder.glob(_STATES)):
        return folder.parent, folder.name
    latest = folder / "latest"
    if not latest.exists():
        raise CheckpointError(f"{folder} has no file latest that names a step: give the folder of one step")
    try:
        step = read_bounded(latest, _LONGEST_NAME).decode("utf-8").strip()
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{latest} does not name a step: {error}") from None
    if Path(step).name != step or not (folder / step).is_dir():
        raise CheckpointError(f"{latest} names {step!r}, and there is no such folder in {folder}")
    return folder, step


def _consolidate(folder: Path, step: str) -> dict[str, torch.Tensor]:
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    reader: Any = importlib.import_module("deepspeed.utils.zero_to_fp32")
    weights: dict[str, torch.Tensor] = reader.get_fp32_state_dict_from_zero_checkpoint(str(folder), step)
    return weights
