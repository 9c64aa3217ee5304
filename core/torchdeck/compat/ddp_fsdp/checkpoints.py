"""Checkpoints of a loop of your own: written by the library, or given to your manager as state dicts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, CheckpointError
from torchdeck.distributed.checkpoints.checkpoint_loading import load_all
from torchdeck.distributed.checkpoints.manager import CheckpointManager, Stateful
from torchdeck.distributed.checkpoints.peers import nothing, truth
from torchdeck.distributed.checkpoints.resuming import TIMEOUT, peers_of, resume_newest, train_state


class SavesState(Protocol):
    """A checkpoint manager of your own; it is called on rank 0."""

    def save_checkpoint(self, *, state: dict[str, Any], step: int) -> Any: ...


@arguments()
def save_checkpoint_distributed(
    model: nn.Module,
    optimizer: Optimizer,
    scaler: Stateful,
    step: int,
    checkpoint_manager: CheckpointManager | SavesState,
    *,
    config: Mapping[str, Any] | None = None,
) -> None:
    """Save the whole state of training. All ranks call it, and it returns when the checkpoint is written.

    Args:
        model: plain, or inside DDP, FSDP2 or torch.compile.
        optimizer: over its parameters.
        scaler: gradient scaler.
        step: number of optimizer steps done.
        checkpoint_manager: the library's, which writes on all ranks, hashes and keeps the newest ones; or an
            object of your own with `save_checkpoint(state=…, step=…)`, which rank 0 calls with
            `model_state_dict`, `optimizer_state_dict`, `scaler_state_dict`, `step` and `config`.
        config: JSON values to save.

    Raises:
        CheckpointError: on every rank, whichever rank failed.
    """
    if isinstance(checkpoint_manager, CheckpointManager):
        checkpoint_manager.save(step, model, optimizer, scaler=scaler, extra={"config": dict(config or {})})
        return
    peers = peers_of(None, TIMEOUT)
    peers.call("save_checkpoint_distributed", f"step {step}")
    state = {
        "model_state_dict": get_model_state_dict(model, options=_WHOLE),
        "optimizer_state_dict": _optimizer_state(model, optimizer),
        "scaler_state_dict": scaler.state_dict(),
        "step": step,
        "config": dict(config or {}),
    }
    peers.first(
        f"saving the checkpoint of step {step}",
        lambda: (checkpoint_manager.save_checkpoint(state=state, step=step), None)[1],
        nothing,
    )
    peers.leave()


@arguments()
def load_checkpoint_distributed(
    model: nn.Module, optimizer: Optimizer, scaler: Stateful, checkpoint_path: str | Path
) -> int:
    """Load what `save_checkpoint_distributed` saved, on all ranks; return its step.

    Args:
        model: made and wrapped as for saving; a checkpoint of the library may be of any world size and
            sharding, and so may a file.
        optimizer: over its parameters, made as for saving.
        scaler: gradient scaler.
        checkpoint_path: a checkpoint of the library, a folder of them, of which the newest is loaded, or a
            file of torch.save with the state dicts. Files are read without executing code in them.

    Raises:
        CheckpointError: there is none, it is damaged, or it is of another model or optimizer.
    """
    path, peers = Path(checkpoint_path), peers_of(None, TIMEOUT)
    peers.call("load_checkpoint_distributed")
    if peers.first(f"looking into {path}", path.is_file, truth):
        saved = peers.step(f"reading {path}", lambda: _read(path))
        peers.leave()
        return _load(saved, model, optimizer, scaler)
    state = train_state(model, optimizer, None)
    is_one = peers.first(f"looking into {path}", (path / MANIFEST_NAME).exists, truth)
    loaded = load_all(path, state, peers) if is_one else resume_newest(path, state, peers)
    peers.leave()
    if loaded is None:
        raise CheckpointError(f"there is no checkpoint in {path}")
    if loaded.scaler_state:
        scaler.load_state_dict(loaded.scaler_state)
    return loaded.step


_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)
"""Whole tensors, on rank 0 and on the CPU."""


def _read(path: Path) -> Mapping[str, Any]:
    saved = torch.load(path, map_location="cpu", weights_only=True)
    lacking = [name for name in _NAMES if not isinstance(saved, Mapping) or name not in saved]
    if lacking:
        raise CheckpointError(
            f"{path} has no {lacking[0]}: give a file that save_checkpoint_distributed wrote"
        )
    return dict(saved)


_NAMES = ("model_state_dict", "optimizer_state_dict", "scaler_state_dict", "step")


def _load(saved: Mapping[str, Any], model: nn.Module, optimizer: Optimizer, scaler: Stateful) -> int:
    options = StateDictOptions(full_state_dict=True)
    set_model_state_dict(model, saved["model_state_dict"], options=options)
    state = saved["optimizer_state_dict"]
    named = any(isinstance(key, str) for key in state["state"])
    if named or _is_sharded(model):
        by_name = state if named else _by_name(model, optimizer, state)
        set_optimizer_state_dict(model, optimizer, by_name, options=options)
    else:
        optimizer.load_state_dict(state)
    scaler.load_state_dict(saved["scaler_state_dict"])
    return int(saved["step"])


def _optimizer_state(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Return torch's usual state dict; of a sharded model, by the names of parameters."""
    if _is_sharded(model):
        return dict(get_optimizer_state_dict(model, optimizer, options=_WHOLE))
    return optimizer.state_dict()


def _is_sharded(model: nn.Module) -> bool:
    return any(isinstance(parameter, DTensor) for parameter in model.parameters())


def _by_name(model: nn.Module, optimizer: Optimizer, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state dict whose parameters are numbered as in `optimizer`, by the model's names instead."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    order = [names[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]]
    return {
        "state": {order[index]: values for index, values in state["state"].items()},
        "param_groups": [
            {**group, "params": [order[index] for index in group["params"]]}
            for group in state["param_groups"]
        ],
    }
