"""The optimizers' part of a checkpoint."""

import json
from collections.abc import Callable

import pytest
import torch
from torch import nn

from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.tensors.optimizer_state import (
    check_same_optimizers,
    describe_optimizers,
    empty_tensors,
    optimizer_tensors,
    restore_optimizers,
)

Make = Callable[[nn.Module], torch.optim.Optimizer]

KINDS: dict[str, Make] = {
    "adamw": lambda model: torch.optim.AdamW(model.parameters(), lr=0.01),
    "adam amsgrad": lambda model: torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True),
    "adam with a tensor as lr": lambda model: torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01)),
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.01),
    "sgd momentum": lambda model: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, dampening=0.3),
    "adagrad": lambda model: torch.optim.Adagrad(model.parameters(), lr=0.01),
    "adafactor": lambda model: torch.optim.Adafactor(model.parameters(), lr=0.01),
    "rmsprop": lambda model: torch.optim.RMSprop(model.parameters(), lr=0.01, centered=True),
}


def _model() -> nn.Module:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1))
    model[1].requires_grad_(requires_grad=False)
    return model


def _train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.full((2, 4), 1.0 + step)).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_optimizer_goes_on_exactly(kind: str, steps: int) -> None:
    """Saved, described as JSON, restored into another: the next steps give the same weights bit for bit."""
    model = _model()
    optimizer = KINDS[kind](model)
    _train(model, optimizer, steps)
    saved = json.loads(json.dumps(describe_optimizers(model, [optimizer])))
    tensors = {name: tensor.clone() for name, tensor in optimizer_tensors(model, [optimizer]).items()}

    other = _model()
    fresh = KINDS[kind](other)
    _train(other, fresh, 1)
    other.load_state_dict(model.state_dict())
    places = empty_tensors(other, [fresh], saved)
    assert {name: (place.shape, place.dtype) for name, place in places.items()} == {
        name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()
    }
    for name, place in places.items():
        place.copy_(tensors[name])
    restore_optimizers(other, [fresh], saved, places)

    _train(model, optimizer, 2)
    _train(other, fresh, 2)
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_saving_before_the_first_step_changes_nothing() -> None:
    """Describing a fresh Adam takes no step of it: its bias correction begins at 1."""
    model = _model()
    optimizer = torch.optim.Adam(model.parameters())
    assert optimizer_tensors(model, [optimizer]) == {}
    assert describe_optimizers(model, [optimizer])[0]["state"] == {}
    assert len(optimizer.state) == 0


def test_options_are_the_checkpoints_but_how_to_compute_is_this_runs() -> None:
    """Learning rate and betas come back; foreach stays as this run has it."""
    model = _model()
    saved = describe_optimizers(
        model, [torch.optim.Adam(model.parameters(), lr=0.5, betas=(0.1, 0.2), foreach=True)]
    )
    fresh = torch.optim.Adam(model.parameters(), lr=0.1, foreach=False)
    restore_optimizers(model, [fresh], json.loads(json.dumps(saved)), {})
    group = fresh.param_groups[0]
    assert (group["lr"], group["betas"], group["foreach"]) == (0.5, (0.1, 0.2), False)


def test_another_kind_or_grouping_is_refused() -> None:
    """What differs is said: the kind, the number of groups, or the parameter that is elsewhere."""
    model = _model()
    params = list(model.parameters())
    saved = describe_optimizers(model, [torch.optim.AdamW(params)])
    with pytest.raises(CheckpointError, match="optimizer is AdamW, this run's is SGD"):
        check_same_optimizers(model, [torch.optim.SGD(params, lr=0.1)], saved)
    with pytest.raises(CheckpointError, match="optimizer is AdamW, this run's is none"):
        check_same_optimizers(model, [], saved)
    with pytest.raises(CheckpointError, match=r"groups of \[6\] parameters, this run's of \[2, 4\]"):
        check_same_optimizers(
            model, [torch.optim.AdamW([{"params": params[:2]}, {"params": params[2:]}])], saved
        )
    with pytest.raises(CheckpointError, match=r"has 0\.weight where this run's has 2\.bias"):
        check_same_optimizers(model, [torch.optim.AdamW(params[::-1])], saved)


def test_parameters_that_are_not_the_models_are_refused() -> None:
    """An optimizer made before the model was wrapped would save nothing of use."""
    with pytest.raises(CheckpointError, match="make the optimizer after the model was wrapped"):
        describe_optimizers(_model(), [torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)])


def test_state_that_needs_a_pickle_is_refused() -> None:
    """LBFGS keeps lists of tensors: it is named, not pickled."""
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.state[next(model.parameters())]["history"] = object()
    with pytest.raises(CheckpointError, match=r"optimizer state history of 0\.weight"):
        describe_optimizers(model, [optimizer])
