"""What a loss of outputs and targets weighs, and the accuracy beside it."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from torchdeck.distributed.fit.wrapped_loss import accuracy, make_loss

OUTPUT = torch.tensor([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 3.0, 1.0], [5.0, 0.0, 0.0]])
TARGET = torch.tensor([0, 1, 2, -100])
CLASS_WEIGHTS = torch.tensor([1.0, 2.0, 4.0])


def given(output: Tensor, *_: Any) -> Tensor:
    """A model that returns its first argument."""
    return output


@pytest.mark.parametrize(
    ("loss", "weight"),
    [
        pytest.param(nn.CrossEntropyLoss(), 3.0, id="module"),
        pytest.param(functional.cross_entropy, 3.0, id="function"),
        pytest.param(partial(functional.cross_entropy, ignore_index=2), 2.0, id="partial"),
        pytest.param(nn.CrossEntropyLoss(weight=CLASS_WEIGHTS), 7.0, id="weighted"),
        pytest.param(lambda output, target: output.mean() + 0 * target.sum(), 4.0, id="own"),
    ],
)
def test_a_loss_weighs_what_its_mean_is_over(loss: Any, weight: float) -> None:
    target = TARGET.where(TARGET >= 0, 2) if weight == 2.0 else TARGET
    value, found, metrics = make_loss(loss)(given, (OUTPUT, target))
    assert found == weight
    assert value == loss(OUTPUT, target)
    assert metrics == {}


def test_means_of_parts_by_their_weights_are_the_mean_of_the_whole() -> None:
    """As torch has it, with classes weighted and targets left out; a part in which nothing counts too."""
    loss = nn.CrossEntropyLoss(weight=CLASS_WEIGHTS)
    parts = [make_loss(loss)(given, (OUTPUT[i : i + 1], TARGET[i : i + 1])) for i in range(4)]
    whole = sum(value * weight for value, weight, _ in parts) / sum(weight for _, weight, _ in parts)
    assert float(whole) == pytest.approx(float(loss(OUTPUT, TARGET)))


def test_accuracy_of_each_layout() -> None:
    """Classes in dimension 1, classes last, yes and no; targets left out do not count."""
    assert accuracy(OUTPUT, TARGET) == pytest.approx(2 / 3)
    assert accuracy(OUTPUT.T[None], TARGET[None]) == pytest.approx(2 / 3)
    assert accuracy(OUTPUT.repeat(2, 1, 1), TARGET.repeat(2, 1)) == pytest.approx(2 / 3)
    assert accuracy(torch.tensor([1.0, -1.0]), torch.tensor([1.0, 1.0])) == 0.5
    with pytest.raises(ValueError, match="expected"):
        accuracy(OUTPUT, TARGET[:2])


def test_a_loss_of_model_and_batch_is_taken_as_it_is() -> None:
    def loss(model: Any, batch: Any) -> Any:
        return model(batch)

    assert make_loss(loss) is loss
    with pytest.raises(ValueError, match="metrics cannot be combined"):
        make_loss(loss, ["accuracy"])


def test_inputs_by_name_and_several_inputs_reach_the_model() -> None:
    by_name = make_loss(nn.MSELoss())(lambda *, a, b: a + b, ({"a": OUTPUT, "b": OUTPUT}, OUTPUT * 2))
    several = make_loss(nn.MSELoss())(lambda a, b: a + b, (OUTPUT, OUTPUT, OUTPUT * 2))
    assert by_name == several == (torch.tensor(0.0), 4.0, {})


@pytest.mark.parametrize(
    ("loss", "metrics", "error", "says"),
    [
        pytest.param(nn.CrossEntropyLoss(reduction="sum"), (), ValueError, 'expected "mean"', id="sum"),
        pytest.param(nn.MSELoss(), ["f1"], ValueError, 'no metric "f1"', id="metric"),
        pytest.param("mse", (), TypeError, "loss is str", id="text"),
        pytest.param(nn.MSELoss(), {"mine": 3}, TypeError, "metric mine is int", id="number"),
    ],
)
def test_what_is_no_loss_is_refused(loss: Any, metrics: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make_loss(loss, metrics)


def test_a_batch_without_a_target_is_refused() -> None:
    with pytest.raises(ValueError, match="not inputs and a target"):
        make_loss(nn.MSELoss())(given, OUTPUT)
