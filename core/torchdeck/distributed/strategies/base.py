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
from torchdeck.contract.arguments.errors import nearest
from torchdeck.distributed.checked import SettingsError, read_fields
from torchdeck.distributed.fsdp_units import Blocks
from torchdeck.distributed.group.processes import this_rank
from torchdeck.distributed.precision import DTYPES, Precision
from torchdeck.distributed.rank_settings import DistributedSettings
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.strategies.devices import on_device
from torchdeck.distributed.strategies.membership import Membership
from torchdeck.distributed.strategies.same_strategy import check_same_strategy
from torchdeck.environment import DistributedConfig, Place

if TYPE_CHECKING:
    from torchdeck.distributed.checkpoints.snapshot import LoadedState
    from torchdeck.distributed.checkpoints.tensors.training_tensors import TrainingTensors


class DistributedStrategy(Membership, ABC):
    """Base class of the ways to train a model on several ranks.

    Call `setup` first and `close` last, or use it as a context manager. Call `wrap_model` before creating the
    optimizer, as it may replace parameters:

        with DistributedStrategy.from_config({"strategy": "fsdp"}) as strategy:
            wrapped = strategy.wrap_model(model)
            optimizer = strategy.prepare_optimizer(wrapped, AdamW(model.parameters()))
            for microbatches in steps:
                for index, batch in enumerate(microbatches):
                    with strategy.accumulate(wrapped, last=index == len(microbatches) - 1):
                        loss = wrapped(strategy.to_device(batch)).mean() / len(microbatches)
                        strategy.backward(loss)
                strategy.clip_grad_norm(model, 1.0)
                strategy.optimizer_step(optimizer)
                optimizer.zero_grad()

    Gradients are averaged over the ranks, for the losses passed to `backward`. Save, clip and synchronise
    `model`, as passed to `wrap_model`; call `wrapped`.

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
        config: DistributedSettings | Mapping[str, Any],
        *,
        precision: str = "fp32",
        environment: DistributedConfig | None = None,
    ) -> DistributedStrategy:
        """Make the strategy that `config` names; it is not set up yet.

        Args:
            config: settings, or a mapping like the [distributed] table of a run.toml: `strategy`, and
                tables `ddp`, `fsdp`, ... with options; `backend` and `timeout` in seconds override the
                environment.
            precision: `fp32`, `bf16` or `fp16`.
            environment: this rank, and where the ranks meet. Default: the existing process group, else the
                launcher's variables.

        Raises:
            SettingsError: there is no such strategy, or an option is unknown or of the wrong type.
            LauncherVariableError: the launcher's variables contradict each other.
        """
        if precision not in DTYPES:
            raise SettingsError(f"precision is {precision!r}", fix=f"expected one of {', '.join(DTYPES)}")
        rank = environment or this_rank()
        settings = config if isinstance(config, DistributedSettings) else _settings(config, rank)
        return make_strategy(settings, Precision(precision), rank)

    def setup(self) -> None:
        """Join the other ranks, once; wait for them up to the timeout. An existing group is joined.

        Raises:
            RendezvousError: a rank did not arrive within the timeout, or has another WORLD_SIZE; the message
                names it.
            AgreementError: ranks have different strategies, options or precisions.
            MissingCallError: a rank of an existing group does not set up a strategy.
            RecipeError: there is no GPU for this rank, or the existing group is a different one.
        """
        if self._group is None:
            self._group = self._join()
            try:
                check_same_strategy(self._group, self.name, self.settings, self.precision)
            except RecipeError:
                self.close()
                raise

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

    @arguments(own_checks=True)
    def prepare_optimizer(self, wrapped: nn.Module, optimizer: Optimizer) -> Optimizer:  # noqa: ARG002
        """Return the optimizer to step, given one of the wrapped model's parameters. Call it once, before
        the first forward pass.
        """
        return optimizer

    def tensors(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> TrainingTensors:
        """Weights and optimizer state as checkpoints store them; `model` as it was given to `wrap_model`."""
        from torchdeck.distributed.checkpoints.tensors.training_tensors import ModuleTensors

        return ModuleTensors(model, optimizers)

    @arguments(own_checks=True)
    def accumulate(self, wrapped: nn.Module, *, last: bool) -> AbstractContextManager[object]:
        """Context of a microbatch's forward and backward pass; gradients are reduced in the `last` one."""
        return nullcontext() if last else self.no_sync(wrapped)

    def no_sync(self, wrapped: nn.Module) -> AbstractContextManager[object]:  # noqa: ARG002 - nothing to reduce
        """Context of forward and backward passes whose gradients are not reduced yet.

        They are reduced by the first backward pass outside of it, or by `sync_gradients`.
        """
        return nullcontext()

    @arguments(own_checks=True)
    def backward(self, loss: Tensor) -> None:
        if self._group is not None:
            self._group.step_begins()
        loss.backward()  # type: ignore[no-untyped-call]

    def sync_gradients(self, model: nn.Module) -> None:
        """Average the gradients that were accumulated under `no_sync` over the ranks.

        Gradients that were reduced already do not change (except for rounding).
        """

    @arguments(own_checks=True)
    def clip_grad_norm(
        self, model: nn.Module, max_norm: float | None, *, scale: float = 1.0, measure: bool = True
    ) -> float | None:
        """Multiply all gradients by `scale`, then scale them down so that their norm is at most `max_norm`.

        Args:
            model: model with the gradients.
            max_norm: largest norm of the whole scaled gradient over all ranks. None: no clipping.
            scale: factor that makes the accumulated gradient that of the mean loss.
            measure: return the norm also if nothing is clipped.

        Returns:
            The norm of the scaled gradient before clipping, the same on every rank; None if it was not
            measured. If it is not finite, the gradients are unchanged.
        """
        gradients = self.local_gradients(model)
        norm = None
        if measure or max_norm is not None:
            norm = scale * math.sqrt(self.total_square(self.local_square(gradients)))
            if not math.isfinite(norm):
                return norm
        if norm is not None and max_norm is not None:
            scale *= factor_within(norm, max_norm)
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
        return square_of_norm(gradients)

    def total_square(self, local: float) -> float:
        """Return the squared norm of the whole gradient, given that of this rank's part."""
        return local

    @arguments(own_checks=True)
    def optimizer_step(self, optimizer: Optimizer) -> None:
        optimizer.step()
        if self._group is not None:
            self._group.step_ends()

    def to_device(self, batch: Any) -> Any:
        """Move the tensors of `batch` to this rank's device, in mappings, tuples, lists and dataclasses."""
        return on_device(batch, self.device)

    @arguments()
    def save(
        self,
        folder: str | Path,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer],
        *,
        step: int,
        extra: Mapping[str, Any] | None = None,
        keep_last: int = 3,
        timeout: float | None = None,
    ) -> Path:
        """Save weights, optimizer state and every rank's random state as `folder`/step_…; all ranks call
        it.

        Args:
            folder: folder for these checkpoints only, the same for all ranks.
            model: as it was given to `wrap_model`.
            optimizer: one, or several in a fixed order.
            step: number of optimizer steps done.
            extra: any other JSON values to save.
            keep_last: number of newest checkpoints to keep.
            timeout: seconds that a rank waits for the others to call this too, and in each phase. Default:
                the strategy's timeout for the call, 1800 for a phase.

        Returns:
            The checkpoint, complete and on disk.

        Raises:
            CheckpointError: on every rank: it could not be saved, or a rank did not call this; the message
                names it. Earlier checkpoints are unchanged.
        """
        from torchdeck.distributed.checkpoints.manager import save_training

        return save_training(
            self,
            Path(folder),
            model,
            optimizer,
            step=step,
            extra=extra or {},
            keep_last=keep_last,
            timeout=timeout,
        )

    @arguments()
    def load(
        self,
        folder: str | Path,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer],
        *,
        timeout: float | None = None,
    ) -> LoadedState:
        """Continue from a checkpoint of any strategy and world size; all ranks call it.

        Args:
            folder: a checkpoint, or a folder of checkpoints, of which the newest complete one is loaded.
            model: model to load into, as it was given to `wrap_model`.
            optimizer: optimizer to load into, made as for saving.
            timeout: as in `save`.

        Raises:
            CheckpointError: on every rank: there is none, it is damaged, it is of another model or
                optimizer, or a rank did not call this.
        """
        from torchdeck.distributed.checkpoints.manager import load_training

        return load_training(self, Path(folder), model, optimizer, timeout=timeout)


# Gradient norm computed in parts, and clipping.

_NORM_FLOOR = 1e-6


def square_of_norm(gradients: list[Tensor]) -> float:
    """Return the squared norm of `gradients` taken as one vector."""
    if len({(gradient.device, gradient.dtype) for gradient in gradients}) == 1:
        # same result as get_total_norm, without its sorting by device and dtype
        norms = torch._foreach_norm(gradients)  # noqa: SLF001 - as torch's own does; has no public name
        return float(torch.linalg.vector_norm(torch.stack(norms))) ** 2
    return float(get_total_norm(gradients)) ** 2


def factor_within(norm: float, limit: float) -> float:
    """Return the factor that clips a gradient of `norm` to `limit`, as torch's clip_grad_norm_ does."""
    return min(1.0, limit / (norm + _NORM_FLOOR))


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
    name = getattr(kind, "name", "")
    if not isinstance(name, str) or not name:
        raise ValueError(f'{kind.__name__} has no name: give the class one, such as name = "mine"')
    if STRATEGIES.setdefault(name, kind) is not kind:
        raise ValueError(
            f"{kind.__name__} is named {name!r} like {STRATEGIES[name].__name__}: choose another name"
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


def _settings(config: Mapping[str, Any], rank: DistributedConfig) -> DistributedSettings:
    """Return `config` with defaults filled in: backend, timeout, and the ranks of one node as the hsdp
    group.
    """
    usual = "nccl" if torch.cuda.is_available() and torch.cuda.device_count() > rank.local_rank else "gloo"
    known: dict[str, Any] = {
        "backend": usual if rank.backend == "auto" else rank.backend,
        "timeout": rank.timeout,
        "hsdp": {"shard": rank.local_world_size},
    }
    return read_fields(DistributedSettings, known | dict(config), "config")
