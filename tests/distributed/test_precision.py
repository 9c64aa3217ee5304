"""The loss scaler against torch's."""

import copy
import inspect
import math

import pytest
import torch
from torch import nn

from torchdeck.distributed.precision import LossScaler, Precision
from torchdeck.distributed.recipe_loading import RecipeError


@pytest.mark.filterwarnings("ignore:torch.cuda.amp.GradScaler")
def test_scale_moves_as_torchs_grad_scaler() -> None:
    """The same overflows give the same scales and the same skipped steps as torch.amp.GradScaler."""
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    torchs, ours = torch.amp.GradScaler("cpu", growth_interval=2000), LossScaler(enabled=True)
    overflows = {0, 1, 5, 2100}
    for step in range(4200):
        gradient = math.inf if step in overflows else 1.0
        weight.grad = torch.full((1,), gradient)
        torchs.scale(torch.ones(1))
        torchs.step(optimizer)
        torchs.update()
        assert ours.update(gradient) == (step not in overflows)
        assert ours.scale == torchs.get_scale(), step


def test_disabled_scaler_changes_nothing() -> None:
    """bf16 and fp32 have no scale, no state, and step whatever the norm."""
    for name in ("fp32", "bf16"):
        scaler = Precision(name).make_scaler()
        assert (scaler.scale, scaler.update(math.inf), scaler.state_dict()) == (1.0, True, {})


def test_state_goes_over() -> None:
    """A scaler goes on where the saved one was; an empty state leaves it alone."""
    scaler, other = LossScaler(enabled=True), LossScaler(enabled=True)
    scaler.update(math.nan)
    scaler.update(1.0)
    other.load_state_dict(scaler.state_dict())
    other.load_state_dict({})
    assert other.state_dict() == scaler.state_dict() == {"scale": 2.0**15, "good_steps": 1}


def test_gives_up_when_no_scale_helps() -> None:
    """Gradients that always overflow end in a sentence, not in an endless run of skipped steps."""
    scaler = LossScaler(enabled=True)
    with pytest.raises(RecipeError, match="overflow at every loss scale"):
        any(scaler.update(math.inf) for _ in range(100))


class Own(nn.Linear):
    """A module whose forward has a name for its input."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return super().forward(values)


def test_another_precision_replaces_the_one_before() -> None:
    """Also fp32; a copy computes with its own weights, and other libraries still see the arguments."""
    model, cpu = Own(3, 3), torch.device("cpu")
    used: list[torch.dtype] = []
    model.register_forward_hook(lambda _module, _given, returned: used.append(returned.dtype))
    exact = model(torch.ones(1, 3))
    for name in ("bf16", "fp16", "bf16"):
        Precision(name).compute(model, cpu)
        assert list(inspect.signature(model.forward).parameters) == ["values"]
        assert not torch.equal(model(torch.ones(1, 3)), exact), name
    twin = copy.deepcopy(model)
    with torch.no_grad():
        model.weight.zero_()
        model.bias.zero_()
    assert twin(torch.ones(1, 3)).abs().sum() > 0
    Precision("fp32").compute(twin, cpu)
    assert torch.equal(twin(torch.ones(1, 3)), exact)
    assert "forward" not in twin.__dict__


def test_autocast_computes_in_the_format() -> None:
    """A product under bf16's autocast is bf16, under fp32 it is fp32."""
    a = torch.ones(2, 2)
    for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float32)):
        with Precision(name).autocast(torch.device("cpu")):
            assert (a @ a).dtype == dtype
