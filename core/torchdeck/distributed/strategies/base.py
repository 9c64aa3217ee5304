"""Interface between a strategy and a training loop (the trainer's or hand-written). No caller checks which
strategy it has.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError, nearest, shown
from torchdeck.data.spellings import MAX_NORM, MaxNormSpelling
from torchdeck.distributed.checked import SettingsError
from torchdeck.distributed.fsdp_units import Blocks
from torchdeck.distributed.group.processes import this_rank
from torchdeck.distributed.precision import DTYPES, Precision
from torchdeck.distributed.rank_settings import DistributedSettings
from torchdeck.distributed.strategies.checkpoints import Checkpoints
from torchdeck.distributed.strategies.configs import HasStrategy, settings_of, strategy_table
from torchdeck.distributed.strategies.devices import on_device
from torchdeck.distributed.strategies.replaced_parameters import check_trains
from torchdeck.distributed.strategies.scaled_gradients import ScaledGradients
from torchdeck.environment import DistributedConfig, Place

if TYPE_CHECKING:
    from typing_extensions import Unpack

_NORM_FLOOR = 1e-6


class DistributedStrategy(Checkpoints, ABC):
    """Base class of the ways to train a model on several ranks.

    Call `setup` first and `close` last, or use it as a context manager. Call `wrap_model` before creating the
    optimizer, as it may replace parameters:

        with DistributedStrategy.from_config({"strategy": "fsdp"}) as strategy:
            wrapped = strategy.wrap_model(model)
            optimizer = strategy.prepare_optimizer(wrapped, AdamW(model.parameters()))
            for microbatches in steps:
                for index, batch in enumerate(microbatches):
                    with strategy.accumulate(wrapped, last=index == len(microbatches) - 1):
                        with strategy.autocast():
                            loss = wrapped(strategy.to_device(batch)).mean() / len(microbatches)
                        strategy.backward(loss)
                strategy.clip_grad_norm(model, 1.0)
                strategy.optimizer_step(optimizer)
                optimizer.zero_grad()

    Gradients are averaged over the ranks, for the losses passed to `backward`. Save, clip and synchronise
    `model`, as passed to `wrap_model`; call `wrapped`.

    `precision` means the same under every strategy: the wrapped model computes in it, also outside of
    `autocast`, which is for the loss function. In fp16 `backward` scales the loss by `scaler`,
    `clip_grad_norm` or `optimizer_step` divide the gradients by it, and `optimizer_step` leaves out a step
    whose gradients overflowed.

    A subclass in another package defines at least `name` and `wrap_model`, and registers itself with
    `register_strategy`. Its table `[distributed.NAME]` is available as `settings.options[NAME]`.

    Args:
        settings: the strategy's options, backend and timeout.
        precision: number formats of the run.
        place: this rank; a DistributedConfig also gives the rendezvous, which otherwise comes from the
            variables.
    """

    name: str

    @classmethod
    @arguments()
    def from_config(
        cls,
        config: str | Mapping[str, Any] | HasStrategy,
        *,
        precision: str = "fp32",
        environment: DistributedConfig | None = None,
    ) -> DistributedStrategy:
        """Make the strategy that `config` names; it is not set up yet.

        Args:
            config: name of a strategy; a mapping like the [distributed] table of a run.toml: `strategy`,
                and tables `ddp`, `fsdp`, ... with options; or a dataclass or other object with these as
                attributes, whose further attributes are ignored. `backend` and `timeout` in seconds override
                the environment.
            precision: `fp32`, `bf16` or `fp16`.
            environment: this rank, and where the ranks meet. Default: the existing process group, else the
                launcher's variables.

        Raises:
            SettingsError: there is no such strategy, or an option is unknown or of the wrong type.
            ArgumentError: `config` names no strategy.
            LauncherVariableError: the launcher's variables contradict each other.
        """
        if precision not in DTYPES:
            raise SettingsError(f"precision is {precision!r}", fix=f"expected one of {', '.join(DTYPES)}")
        rank = environment or this_rank()
        settings = config
        if not isinstance(settings, DistributedSettings):
            settings = settings_of(strategy_table(settings, STRATEGIES), rank)
        return make_strategy(settings, Precision(precision), rank)

    @abstractmethod
    def wrap_model(self, model: nn.Module, blocks: Blocks | None = None) -> nn.Module:
        """Return the model to call in training, on this rank's device; `model` still holds the weights.

        Args:
            model: on the CPU, the same on every rank.
            blocks: function that returns the model's blocks, for strategies that shard by block.
        """

    @classmethod
    def wrote(cls, folder: Path) -> bool:  # noqa: ARG003 - formats of other strategies
        """Return whether `folder` is a checkpoint in the native format of the strategy's library."""
        return False

    @classmethod
    def weights_of(cls, folder: Path, *, trusted: bool) -> dict[str, Tensor]:
        """Return the full fp32 weights, by name and on the CPU, of a checkpoint that the library `wrote`.

        Args:
            folder: the checkpoint.
            trusted: allow reading pickles in it, which executes their code.

        Raises:
            CheckpointError: the checkpoint is not trusted, or cannot be read.
        """
        raise NotImplementedError

    def __init__(self, settings: DistributedSettings, precision: Precision, place: Place) -> None:
        super().__init__(settings, precision, place)
        self._gradients = ScaledGradients(self.scaler)

    @arguments()
    def prepare_optimizer(self, wrapped: nn.Module, optimizer: Optimizer) -> Optimizer:
        """Return the optimizer to step, given one of the wrapped model's parameters. Call it once, before
        the first forward pass.

        An optimizer that was made before `wrap_model` gets the parameters that replace its own.

        Raises:
            RecipeError: it has none of the model's parameters, or state of parameters that were replaced.
        """
        check_trains(wrapped, optimizer)
        return optimizer

    def autocast(self) -> AbstractContextManager[object]:
        """Context of forward pass and loss function in the strategy's precision."""
        return self.precision.autocast(self.device)

    @arguments(own_checks=True)
    def accumulate(self, wrapped: nn.Module, *, last: bool) -> AbstractContextManager[object]:
        """Context of a microbatch's forward and backward pass; gradients are reduced in the `last` one."""
        return nullcontext() if last else self.no_sync(wrapped)

    @arguments(own_checks=True)
    def no_sync(self, wrapped: nn.Module) -> AbstractContextManager[object]:  # noqa: ARG002 - nothing to reduce
        """Context of forward and backward passes whose gradients are not reduced yet.

        They are reduced by the first backward pass outside of it, or by `sync_gradients`.
        """
        return nullcontext()

    @arguments(own_checks=True)
    def backward(self, loss: Tensor) -> None:
        """Compute the gradients of `loss`; in fp16 those of the scaled loss."""
        self._scaled(loss).backward()  # type: ignore[no-untyped-call]

    def _scaled(self, loss: Tensor) -> Tensor:
        """Return the loss whose gradients `backward` computes."""
        if self._group is not None:
            self._group.step_begins()
        return self._gradients.scaled(loss)

    @arguments(own_checks=True)
    def sync_gradients(self, model: nn.Module) -> None:
        """Average the gradients that were accumulated under `no_sync` over the ranks.

        Gradients that were reduced already do not change (except for rounding).
        """

    @arguments(also=MAX_NORM, own_checks=True)
    def clip_grad_norm(
        self,
        model: nn.Module,
        max_norm: float | None = None,
        *,
        scale: float = 1.0,
        measure: bool = True,
        **_: Unpack[MaxNormSpelling],
    ) -> float | None:
        """Multiply all gradients by `scale`, then scale them down so that their norm is at most `max_norm`.

        Args:
            model: model with the gradients.
            max_norm: largest norm of the whole scaled gradient over all ranks. None: no clipping.
            scale: factor that makes the accumulated gradient that of the mean loss.
            measure: return the norm also if nothing is clipped.

        Returns:
            The norm of the scaled gradient before clipping, the same on every rank; None if it was not
            measured. If it is not finite, the gradients are unchanged, and in fp16 `optimizer_step` leaves
            out the step.
        """
        gradients = self.local_gradients(model)
        parameters = list(model.parameters()) if self.scaler.enabled else []
        scale /= self._gradients.scale_of(parameters)  # a power of two: exact
        norm = None
        if measure or max_norm is not None or self.scaler.enabled:
            norm = scale * math.sqrt(self.total_square(self.local_square(gradients)))
            self._gradients.measured(parameters, norm)
            if not math.isfinite(norm):
                return norm
        if norm is not None and max_norm is not None:
            scale *= min(1.0, max_norm / (norm + _NORM_FLOOR))  # as torch's clip_grad_norm_
        if scale != 1.0 and gradients:
            torch._foreach_mul_(gradients, scale)
        return norm

    @property
    def weight_parts(self) -> int:
        """Return the number of parts the weights are divided into: ranks r and r + `weight_parts` hold the
        same part.
        """
        return 1

    def weights_changed(self, model: nn.Module) -> None:
        """Drop cached copies of the weights after an in-place change made outside the optimizer."""

    def parameters_here(self, model: nn.Module) -> Iterator[tuple[str, Tensor, Tensor | None]]:
        """Yield name, weight and gradient (or None) of the part of each parameter held by this rank.

        Names and order are the same on every rank. Valid between backward and the optimizer's step.
        """
        for name, parameter in model.named_parameters():
            yield name, parameter.detach(), parameter.grad

    @property
    def parameter_parts(self) -> int:
        """Return the number of parts that `parameters_here` is divided into; see `weight_parts`."""
        return self.weight_parts

    def local_gradients(self, model: nn.Module) -> list[Tensor]:
        """Return this rank's part of each gradient, as plain tensors that share memory with it."""
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    def local_square(self, gradients: list[Tensor]) -> float:
        """Return the squared norm of this rank's part of the gradient."""
        if len({(gradient.device, gradient.dtype) for gradient in gradients}) == 1:
            # same result as get_total_norm, without its sorting by device and dtype
            norms = torch._foreach_norm(gradients)  # noqa: SLF001 - as torch's own does; has no public name
            return float(torch.linalg.vector_norm(torch.stack(norms))) ** 2
        return float(get_total_norm(gradients)) ** 2

    def total_square(self, local: float) -> float:
        """Return the squared norm of the whole gradient, given that of this rank's part."""
        return local

    @arguments(own_checks=True)
    def optimizer_step(self, optimizer: Optimizer) -> bool:
        """Step the optimizer; all ranks call it.

        Returns:
            Whether it stepped. In fp16 a step is left out if its gradients overflowed, and the loss scale is
            halved.

        Raises:
            RecipeError: fp16 gradients overflow however small the scale.
        """
        allowed = self._gradients.may_step(self._parameters_of(optimizer), self._unscale)
        if allowed:
            optimizer.step()
        if self._group is not None:
            self._group.step_ends()
        return allowed

    def _parameters_of(self, optimizer: Optimizer) -> list[Tensor]:
        """Return the model's parameters that `optimizer` steps."""
        return [parameter for group in optimizer.param_groups for parameter in group["params"]]

    def _unscale(self, parameters: Sequence[Tensor]) -> float:
        """Divide the gradients of `parameters` by the loss scale, if they are finite; return their norm."""
        gradients = self.local_gradients(nn.ParameterList(parameters))
        square = self.local_square(gradients) if gradients else 0.0
        scale = self._gradients.scale_of(parameters)
        norm = math.sqrt(self.total_square(square)) / scale
        if math.isfinite(norm) and gradients:
            torch._foreach_mul_(gradients, 1.0 / scale)
        return norm

    @arguments(own_checks=True)
    def to_device(self, batch: Any) -> Any:
        """Move the tensors of `batch` to this rank's device, in mappings, tuples, lists and dataclasses."""
        return on_device(batch, self.device)


# Registry of strategies by name.

Kind = TypeVar("Kind", bound=type[DistributedStrategy])

STRATEGIES: dict[str, type[DistributedStrategy]] = {}
"""Strategies imported by this package's `__init__`, and those registered since."""


@arguments()
def register_strategy(kind: Kind) -> Kind:
    """Register a strategy under its `name`, for settings and `DistributedStrategy.from_config`.

    It can be used as a class decorator, in a recipe's file too.

    Raises:
        ValueError: it has no name, or another strategy has that name.
    """
    given: Any = kind
    if not isinstance(given, type) or not issubclass(given, DistributedStrategy):
        raise ArgumentError(f"kind is {shown(kind)}", fix="give a subclass of DistributedStrategy")
    name = getattr(kind, "name", "")
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"{kind.__name__} has no name", fix='give the class one, such as name = "mine"')
    if STRATEGIES.setdefault(name, kind) is not kind:
        raise ArgumentError(
            f"{kind.__name__} is named {name!r} like {STRATEGIES[name].__name__}", fix="choose another name"
        )
    return kind


@arguments()
def make_strategy(settings: DistributedSettings, precision: Precision, place: Place) -> DistributedStrategy:
    """Make the strategy that `settings` name; it is not set up yet.

    Raises:
        SettingsError: there is no strategy of that name, or options are given for an unknown one.
    """
    kind = STRATEGIES.get(settings.strategy)
    if kind is None:
        raise SettingsError(
            f"there is no strategy {settings.strategy!r}", fix=f"expected one of {', '.join(STRATEGIES)}"
        )
    unknown = sorted(set(settings.options) - set(STRATEGIES))
    if unknown:
        near = nearest(unknown[0], [*STRATEGIES, "backend", "timeout"])
        raise SettingsError(
            f"there are options of {', '.join(unknown)}, which is no strategy",
            fix=f"did you mean {near!r}?" if near else "leave them out",
        )
    return kind(settings, precision, place)
