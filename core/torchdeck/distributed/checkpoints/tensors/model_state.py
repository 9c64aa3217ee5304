"""The model's part of a checkpoint: tensors by bare name, and a check that a checkpoint matches the model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

from torchdeck.contract.checkpoints.manifest import CheckpointError

Listing = dict[str, tuple[tuple[int, ...], str]]
"""Name → global shape and dtype (as in `float32`) of each tensor of a model's state."""

_WRAPPERS = ("_orig_mod.", "_checkpoint_wrapped_module.")


def unwrap(model: nn.Module) -> nn.Module:
    """Return the module inside DDP and torch.compile, in whatever order they wrap it."""
    while True:
        if isinstance(model, nn.parallel.DistributedDataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        else:
            return model


def bare_name(name: str) -> str:
    """Return a name inside an unwrapped model without the prefixes of compilation and activation
    checkpointing.
    """
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def model_tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the model's state by bare name; the tensors are the model's own memory (DTensors if it is
    sharded).

    Raises:
        CheckpointError: the state contains something that is not a tensor.
    """
    tensors = {}
    for name, value in get_model_state_dict(unwrap(model)).items():
        if not isinstance(value, torch.Tensor):
            raise CheckpointError(
                f"the model's state {name} is a {type(value).__name__}; only tensors can be saved: "
                "return a tensor from get_extra_state"
            )
        tensors[bare_name(name)] = value
    return tensors


def parameter_names(model: nn.Module) -> set[str]:
    """Return the names in `model_tensors` that are parameters; a tied one has several."""
    named = unwrap(model).named_parameters(remove_duplicate=False)
    return {bare_name(name) for name, _ in named}


def restore_model(model: nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """Load the state into the model, so that its own load hooks run."""
    # the setters of model and optimizer are never called as one: with empty parts on some ranks that hung
    set_model_state_dict(unwrap(model), dict(tensors))


def local_buffers(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return this rank's own buffers (running statistics may differ between ranks), by bare name, on the
    CPU.
    """
    inner = unwrap(model)
    names = set(model_tensors(model))
    buffers = ((bare_name(name), buffer) for name, buffer in inner.named_buffers())
    return {
        name: buffer.detach().cpu().clone()
        for name, buffer in buffers
        if name in names and not hasattr(buffer, "placements")
    }


def restore_buffers(model: nn.Module, saved: Mapping[str, torch.Tensor]) -> None:
    """Restore this rank's own buffers."""
    for name, buffer in unwrap(model).named_buffers():
        value = saved.get(bare_name(name))
        if value is not None and value.shape == buffer.shape:
            buffer.copy_(value)


def listing_of(tensors: Mapping[str, torch.Tensor]) -> Listing:
    return {name: (tuple(tensor.shape), dtype_name(tensor.dtype)) for name, tensor in tensors.items()}


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def listing_to_json(listing: Listing) -> list[list[Any]]:
    return [[name, list(shape), dtype] for name, (shape, dtype) in listing.items()]


def listing_from_json(value: Any) -> Listing:
    """Convert JSON to a listing. Raises ValueError or TypeError if `value` is not a listing."""
    return {str(name): (tuple(int(size) for size in shape), str(dtype)) for name, shape, dtype in value}


def model_fingerprint(listing: Listing) -> str:
    """Return the SHA-256 over names, shapes and dtypes, independent of their order."""
    text = json.dumps(sorted(listing_to_json(listing)), separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def first_difference(saved: Listing, current: Listing) -> str | None:
    """Return the first difference between a checkpoint's model and this run's, as a clause; None if there is
    none.
    """
    for name, (shape, dtype) in current.items():
        if name not in saved:
            return f"this run's model has {name} {shape}, the checkpoint's has none"
        saved_shape, saved_dtype = saved[name]
        if saved_shape != shape:
            return f"{name} is {saved_shape} in the checkpoint and {shape} in this run's model"
        if saved_dtype != dtype:
            return f"{name} is {saved_dtype} in the checkpoint and {dtype} in this run's model"
    for name, (shape, _) in saved.items():
        if name not in current:
            return f"the checkpoint's model has {name} {shape}, this run's has none"
    return None
