"""What holds for every strategy, on one rank."""

import re
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.distributed.checked import SettingsError, read_fields
from torchdeck.distributed.precision import Precision
from torchdeck.distributed.rank_settings import DdpSettings, DistributedSettings
from torchdeck.distributed.strategies.base import (
    STRATEGIES,
    DistributedStrategy,
    make_strategy,
    register_strategy,
)
from torchdeck.distributed.strategies.ddp import SingleStrategy
from torchdeck.distributed.strategies.devices import on_device
from torchdeck.distributed.strategies.fsdp import HsdpStrategy
from torchdeck.environment import DistributedConfig, Place

Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - the kind of named tuple a data set may return


@pytest.fixture
def single() -> Iterator[DistributedStrategy]:
    strategy = make_strategy(DistributedSettings("single", "gloo"), Precision("fp32"), Place())
    strategy.setup()
    yield strategy
    strategy.close()


def test_registry_knows_its_strategies() -> None:
    """single, ddp, fsdp, hsdp and deepspeed, beside what others register; another name is refused."""
    assert set(STRATEGIES) >= {"single", "ddp", "fsdp", "hsdp", "deepspeed"}
    with pytest.raises(SettingsError, match=r"no strategy 'horovod': expected one of .*fsdp, hsdp"):
        make_strategy(DistributedSettings("horovod", "gloo"), Precision("fp32"), Place())


def test_options_of_a_strategy_are_its_own() -> None:
    """They are read by it alone; options of what is no strategy are refused."""
    table = {"backend": "gloo", "deepspeed": {"zero_stage": 3}, "toy": {"any": 1}}
    settings = read_fields(DistributedSettings, {"strategy": "single", **table}, "distributed")
    assert settings.options == {"deepspeed": {"zero_stage": 3}, "toy": {"any": 1}}
    with pytest.raises(SettingsError, match="options of nobody, which is no strategy"):
        DistributedStrategy.from_config({"strategy": "single", "nobody": {}})
    with pytest.raises(SettingsError, match=r"config\.deepspeed has unknown fields stage"):
        DistributedStrategy.from_config({"strategy": "deepspeed", "deepspeed": {"stage": 3}})


def test_a_batch_keeps_its_shape_on_the_device(single: DistributedStrategy) -> None:
    """Mappings, tuples, named tuples and lists are kept, tensors moved, everything else passed through."""
    tensor = torch.ones(2)
    batch = {"a": [tensor, "text", 3], "b": Pair((tensor, None), {"c": b"bytes"})}
    moved = single.to_device(batch)
    assert moved["a"][0] is not None
    assert isinstance(moved["b"], Pair)
    assert isinstance(moved["b"].left, tuple)
    assert moved["a"][1:] == ["text", 3]
    assert moved["b"].right == {"c": b"bytes"}
    assert torch.equal(moved["b"].left[0], tensor)


@dataclass(frozen=True)
class Sample:
    """What a collate function may make."""

    tokens: torch.Tensor
    name: str
    parts: list[torch.Tensor]
    size: int = field(init=False, default=2)


def test_a_dataclass_is_moved_and_left_as_it_was() -> None:
    """Frozen, with fields that are no arguments, and nested; the batch itself is not changed."""
    sample = Sample(torch.ones(2), "a", [torch.zeros(1)])
    moved = on_device({"sample": sample}, torch.device("meta"))["sample"]
    assert isinstance(moved, Sample)
    assert moved.tokens.device.type == moved.parts[0].device.type == "meta"
    assert (moved.name, moved.size) == ("a", 2)
    assert sample.tokens.device.type == "cpu"


def test_strategies_come_from_a_table_like_that_of_a_run() -> None:
    """What it leaves out is the environment's: backend, timeout, and the ranks of a node as hsdp's group."""
    environment = DistributedConfig(5, 8, 1, 4, timeout=30.0)
    table = {"strategy": "hsdp", "fsdp": {"cpu_offload": True}}
    strategy = DistributedStrategy.from_config(table, precision="bf16", environment=environment)
    assert isinstance(strategy, HsdpStrategy)
    assert (strategy.rank, strategy.world_size, strategy.local_rank) == (5, 8, 1)
    assert (strategy.settings.hsdp.shard, strategy.settings.timeout) == (4, 30.0)
    assert strategy.settings.fsdp.cpu_offload
    assert strategy.precision == Precision("bf16")
    assert not strategy.is_main_process
    settings = DistributedSettings("single", "gloo")
    assert DistributedStrategy.from_config(settings, environment=DistributedConfig()).settings == settings


@dataclass
class AppConfig:
    """An application's own settings, of which some are those of a strategy."""

    strategy: str = "ddp"
    ddp: DdpSettings = field(default_factory=lambda: DdpSettings(comm_hook="bf16"))
    timeout: float = 45.0
    epochs: int = 3


def test_strategies_come_from_a_name_or_an_object() -> None:
    """A name alone, a dataclass and an object with attributes; what is not about strategies is left alone."""
    place = DistributedConfig(1, 2, 1, 2)
    named = DistributedStrategy.from_config("ddp", environment=place)
    assert (named.name, named.settings.ddp) == ("ddp", DdpSettings())
    for config in (AppConfig(), SimpleNamespace(**vars(AppConfig()))):
        strategy = DistributedStrategy.from_config(config, environment=place)
        assert (strategy.name, strategy.settings.ddp.comm_hook) == ("ddp", "bf16")
        assert strategy.settings.timeout == 45.0
    with pytest.raises(ArgumentError, match="config is an object of type object: give a name"):
        DistributedStrategy.from_config(object())  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("config", "precision", "why"),
    [
        ({"strategy": "horovod"}, "fp32", "no strategy 'horovod'"),
        ({"strategy": "ddp", "ddp": {"buckets": 3}}, "fp32", "config.ddp has unknown fields buckets"),
        (
            {"strategy": "ddp", "ddp": {"comm_hook": "fp8"}},
            "fp32",
            "expected one of 'none', 'bf16', 'powersgd'",
        ),
        ({}, "fp32", "config.strategy is missing"),
        ({"strategy": "ddp"}, "fp8", "precision is 'fp8': expected one of fp32, bf16, fp16"),
    ],
)
def test_a_table_that_is_wrong_is_refused(config: dict[str, Any], precision: str, why: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(why)):
        DistributedStrategy.from_config(config, precision=precision, environment=DistributedConfig())


def test_a_strategy_needs_a_name_of_its_own() -> None:
    """Without one, or with that of another, it is not registered."""

    class Nameless(SingleStrategy):
        name = ""

    class Second(SingleStrategy):
        name = "ddp"

    with pytest.raises(ValueError, match="Nameless has no name"):
        register_strategy(Nameless)
    with pytest.raises(ValueError, match="Second is named 'ddp' like DdpStrategy"):
        register_strategy(Second)
    assert register_strategy(SingleStrategy) is SingleStrategy


def model_with_gradients() -> nn.Linear:
    model = nn.Linear(2, 1, bias=False)
    model.weight.grad = torch.tensor([[3.0, 4.0]])
    return model


@pytest.mark.parametrize(
    ("scale", "limit", "norm", "after"),
    [
        (1.0, None, 5.0, [3.0, 4.0]),
        (0.5, None, 2.5, [1.5, 2.0]),
        (1.0, 1.0, 5.0, [0.6, 0.8]),
        (2.0, 5.0, 10.0, [3.0, 4.0]),
        (0.1, 5.0, 0.5, [0.3, 0.4]),
    ],
)
def test_clipping_is_of_the_scaled_gradient(
    single: DistributedStrategy, scale: float, limit: float | None, norm: float, after: list[float]
) -> None:
    """The norm is that after scaling and before clipping; only what exceeds the limit is clipped."""
    model = model_with_gradients()
    assert single.clip_grad_norm(model, scale=scale, max_norm=limit, measure=True) == pytest.approx(norm)
    assert model.weight.grad is not None
    assert model.weight.grad[0].tolist() == pytest.approx(after, rel=1e-5)


def test_norm_is_measured_only_when_wanted(single: DistributedStrategy) -> None:
    """Without a limit and unasked there is no pass over the gradients for their norm."""
    assert single.clip_grad_norm(model_with_gradients(), scale=1.0, max_norm=None, measure=False) is None


def test_gradients_that_are_not_numbers_are_left_alone(single: DistributedStrategy) -> None:
    """An infinite norm is reported and the gradients stay for the caller to look at."""
    model = model_with_gradients()
    model.weight.grad = torch.tensor([[torch.inf, 4.0]])
    assert single.clip_grad_norm(model, scale=1.0, max_norm=1.0, measure=True) == torch.inf
    assert model.weight.grad[0].tolist() == [torch.inf, 4.0]
