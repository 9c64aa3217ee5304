"""Precision and loss scale of a strategy, by values."""

from __future__ import annotations

import copy
from collections import OrderedDict, namedtuple
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from torchdeck.distributed.precision import LossScaler, Precision, in_fp32
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.environment import DistributedConfig

Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - the kind of named tuple a model may return
CPU = torch.device("cpu")


@pytest.fixture
def fp16() -> Iterator[DistributedStrategy]:
    config = {"strategy": "single"}
    with DistributedStrategy.from_config(config, precision="fp16", environment=DistributedConfig()) as made:
        yield made


def weight(value: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor([value]))


def test_what_a_model_returns_keeps_its_structure() -> None:
    """16-bit tensors become fp32, everything else stays, mappings of a type of their own too."""
    half = torch.ones(2, dtype=torch.float16)
    found = in_fp32(OrderedDict(a=[half, 3], b=Pair((half,), "text"), c=torch.ones(1, dtype=torch.int64)))
    assert isinstance(found, OrderedDict)
    assert found["a"][0].dtype == found["b"].left[0].dtype == torch.float32
    assert (found["a"][1], found["b"].right, found["c"].dtype) == (3, "text", torch.int64)
    assert half.dtype == torch.float16


class Own(nn.Module):
    """Its forward belongs to the object, not to the class."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.forward = self.other  # as some libraries do

    def other(self, x: Tensor) -> Tensor:
        return self.layer(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("model", [nn.Linear(2, 2), Own()])
def test_a_model_computes_in_the_precision_wherever_it_is_called(model: nn.Module) -> None:
    """Not converted within autocast, as before; fp32 changes nothing."""
    exact = model(torch.full((1, 2), 1.001))
    Precision("fp32").compute(model, CPU)
    assert torch.equal(model(torch.full((1, 2), 1.001)), exact)
    Precision("bf16").compute(model, CPU)
    rounded = model(torch.full((1, 2), 1.001))
    assert rounded.dtype == torch.float32
    assert not torch.equal(rounded, exact)
    with torch.autocast("cpu", torch.bfloat16):
        within = model(torch.full((1, 2), 1.001))
    assert within.dtype == torch.bfloat16
    assert torch.equal(within.float(), rounded)


def test_a_copy_of_a_model_computes_with_its_own_weights() -> None:
    """As for a moving average."""
    model = nn.Linear(2, 2)
    Precision("bf16").compute(model, CPU)
    other = copy.deepcopy(model)
    nn.init.zeros_(other.weight)
    nn.init.zeros_(other.bias)
    assert other(torch.ones(1, 2)).tolist() == [[0.0, 0.0]]
    assert model(torch.ones(1, 2)).tolist() != [[0.0, 0.0]]


def test_each_optimizer_is_unscaled_once(fp16: DistributedStrategy) -> None:
    """Two optimizers of one loss, of which one has overflowed: the other steps."""
    good, bad = weight(1.0), weight(1.0)
    optimizers = [SGD([each], lr=1.0) for each in (good, bad)]
    fp16.backward((good * 0.25 + bad * torch.inf).sum())
    assert [fp16.optimizer_step(each) for each in optimizers] == [True, False]
    assert (good.item(), bad.item()) == (0.75, 1.0)
    assert fp16.scaler.scale == 2.0**15
    assert fp16.optimizer_step(optimizers[0])  # nothing is divided again
    assert good.item() == 0.5


def test_models_of_one_loss_are_clipped_one_after_the_other(fp16: DistributedStrategy) -> None:
    """Each is divided by the scale, and the scaler learns of the backward pass once."""
    models = [nn.Linear(1, 1, bias=False) for _ in range(2)]
    optimizers = [SGD(model.parameters(), lr=1.0) for model in models]
    fp16.backward(sum(model(torch.ones(1, 1)).sum() for model in models) * torch.inf)
    assert [fp16.clip_grad_norm(model, 1.0) for model in models] == [torch.inf] * 2
    assert [fp16.optimizer_step(each) for each in optimizers] == [False, False]
    assert fp16.scaler.scale == 2.0**15
    for optimizer in optimizers:
        optimizer.zero_grad()
    fp16.backward(sum(model(torch.ones(1, 1)).sum() for model in models))
    assert [fp16.clip_grad_norm(model, 1.0) for model in models] == [1.0] * 2
    assert [fp16.optimizer_step(each) for each in optimizers] == [True, True]
    assert fp16.scaler.state_dict() == {"scale": 2.0**15, "good_steps": 1}


def test_accumulated_gradients_have_one_scale(fp16: DistributedStrategy) -> None:
    """Several backward passes, then clipping, then the step."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    optimizer = SGD(model.parameters(), lr=1.0)
    for _ in range(3):
        fp16.backward(model(torch.ones(1, 1)).sum())
    assert model.weight.grad is not None
    assert model.weight.grad.item() == 3.0 * 2.0**16
    assert fp16.clip_grad_norm(model, 1.5, scale=1 / 3) == pytest.approx(1.0)
    assert model.weight.grad.item() == pytest.approx(1.0)
    assert fp16.optimizer_step(optimizer)
    assert model.weight.item() == pytest.approx(0.0, abs=1e-6)


def test_an_optimizer_of_another_model_is_refused(fp16: DistributedStrategy) -> None:
    """Under every strategy: it would train nothing."""
    wrapped = fp16.wrap_model(nn.Linear(1, 1))
    with pytest.raises(RecipeError, match="has none of the model's parameters, so that it would train noth"):
        fp16.prepare_optimizer(wrapped, SGD(nn.Linear(1, 1).parameters(), lr=0.1))


def test_a_state_of_torchs_scaler_is_taken() -> None:
    """A checkpoint of a loop that had one goes on under a strategy."""
    scaler = LossScaler(enabled=True)
    scaler.load_state_dict(torch.amp.GradScaler("cpu", init_scale=512.0).state_dict())
    assert scaler.state_dict() == {"scale": 512.0, "good_steps": 0}
