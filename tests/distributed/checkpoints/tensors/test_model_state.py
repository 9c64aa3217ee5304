"""The model's part of a checkpoint."""

import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.tensors.model_state import (
    first_difference,
    listing_from_json,
    listing_of,
    listing_to_json,
    local_buffers,
    model_fingerprint,
    model_tensors,
    restore_buffers,
    unwrap,
)


class Compiled(nn.Module):
    """Named as torch.compile names what it wraps."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._orig_mod = module


class Net(nn.Module):
    """Has a part that is really called `module`."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("cache", torch.zeros(4), persistent=False)


BARE = [
    "module.weight",
    "module.bias",
    "norm.weight",
    "norm.bias",
    "norm.running_mean",
    "norm.running_var",
    "norm.num_batches_tracked",
]


def test_names_are_bare_whatever_is_around_the_model() -> None:
    """Compiling the model or a part of it, and activation checkpointing, do not show in the names."""
    inside = Net()
    inside.module = Compiled(inside.module)  # type: ignore[assignment]
    wrapped = Net()
    wrapped.norm = checkpoint_wrapper(wrapped.norm)  # type: ignore[assignment]
    for model in (Net(), Compiled(Net()), inside, wrapped):
        assert list(model_tensors(model)) == BARE


def test_tensors_are_the_models_own_memory() -> None:
    """Loading into them is loading into the model: no second copy of the weights."""
    model = Net()
    model_tensors(model)["module.weight"].fill_(7)
    assert torch.equal(model.module.weight, torch.full((3, 2), 7.0))


def test_state_that_is_no_tensor_is_refused_by_name() -> None:
    """What would need a pickle is named."""

    class Odd(nn.Linear):
        def get_extra_state(self) -> object:
            return {"a": object()}

        def set_extra_state(self, state: object) -> None:
            """Do nothing."""

    with pytest.raises(CheckpointError, match="_extra_state is a dict"):
        model_tensors(nn.Sequential(Odd(2, 2)))


def test_fingerprint_is_of_names_shapes_and_dtypes() -> None:
    """Weights and the order of registration do not matter; a name, a shape and a dtype do."""
    listing = listing_of(model_tensors(Net()))
    assert model_fingerprint(listing) == model_fingerprint(listing_of(model_tensors(Net())))
    assert model_fingerprint(dict(reversed(listing.items()))) == model_fingerprint(listing)
    others = [Net().to(torch.float64), nn.Sequential(Net())]
    prints = {model_fingerprint(listing_of(model_tensors(other))) for other in others}
    assert len(prints | {model_fingerprint(listing)}) == 3
    assert listing_from_json(listing_to_json(listing)) == listing


def test_the_first_difference_is_named() -> None:
    """Shape, dtype, and names on either side: the first that differs is said with both values."""
    listing = {"a": ((2, 3), "float32"), "b": ((4,), "float32")}
    assert first_difference(listing, dict(listing)) is None
    assert first_difference(listing, {**listing, "b": ((5,), "float32")}) == (
        "b is (4,) in the checkpoint and (5,) in this run's model"
    )
    assert first_difference(listing, {**listing, "a": ((2, 3), "bfloat16")}) == (
        "a is float32 in the checkpoint and bfloat16 in this run's model"
    )
    assert (
        first_difference({"a": listing["a"]}, listing)
        == "this run's model has b (4,), the checkpoint's has none"
    )
    assert (
        first_difference(listing, {"a": listing["a"]})
        == "the checkpoint's model has b (4,), this run's has none"
    )


def test_local_buffers_are_the_persistent_ones() -> None:
    """A rank's running statistics are kept and put back; caches that state_dict leaves out are not."""
    model = Net()
    model.norm.running_mean.fill_(2)  # type: ignore[union-attr]
    saved = local_buffers(Compiled(model))
    assert list(saved) == ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
    other = Net()
    restore_buffers(other, saved)
    assert torch.equal(unwrap(other).get_buffer("norm.running_mean"), torch.full((3,), 2.0))
