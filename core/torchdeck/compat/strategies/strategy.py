"""One interface for all strategies, with checkpoints in a folder of the caller's choice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.optim import Optimizer

from torchdeck.compat.strategies.given import given
from torchdeck.compat.strategies.saved import saved_state
from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.contract.checkpoints.listing import newest_complete
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.data.checked import whole_number
from torchdeck.distributed.checked import SettingsError
from torchdeck.distributed.strategies import base

_FULL_PRECISION = ("no", "none", "fp32", "float32")


class DistributedStrategy:
    """A strategy of `torchdeck.distributed`, made from a nested configuration.

        strategy = DistributedStrategy.from_config(config)
        strategy.setup()
        model = strategy.wrap_model(model)
        optimizer = torch.optim.AdamW(model.parameters())
        strategy.backward(loss)
        strategy.clip_grad_norm(model, 1.0)
        strategy.save_checkpoint(path, model, optimizer, step=100)

    Every method that ranks do together is called on all of them, saving included.

    Args:
        config: an object or mapping with `distributed.strategy` (`fsdp`, `deepspeed`, `ddp` or `single`) and,
            as far as they apply, `distributed.backend`, `distributed.timeout` in seconds,
            `distributed.zero_stage`, `distributed.offload`, and `training.mixed_precision` (`fp16`, `bf16`
            or `no`).

    Raises:
        SettingsError: a value is invalid.
        LauncherVariableError: the launcher's variables contradict each other.
    """

    name: ClassVar[str] = ""
    kinds: ClassVar[dict[str, type[DistributedStrategy]]] = {}
    """Strategies by name."""
    usual_precision: ClassVar[str] = "fp32"
    """Without `training.mixed_precision`."""

    @arguments(own_checks=True)
    def __init__(self, config: Any) -> None:
        if not self.name:
            raise ArgumentError(
                "DistributedStrategy is no strategy itself",
                fix="use DistributedStrategy.from_config, or a class such as DDPStrategy",
            )
        self.config = config
        settings = {"strategy": self.name, **self._options()}
        for key in ("backend", "timeout"):
            value = given(config, f"distributed.{key}")
            if value is not None:
                settings[key] = value
        self.library = base.DistributedStrategy.from_config(settings, precision=self._precision())
        """The strategy that does the work."""
        self._models: WeakKeyDictionary[nn.Module, nn.Module] = WeakKeyDictionary()

    def __init_subclass__(cls) -> None:
        if cls.name:  # a class without one is a base of others
            cls.kinds.setdefault(cls.name, cls)

    @classmethod
    @arguments(own_checks=True)
    def from_config(cls, config: Any) -> DistributedStrategy:
        """Make the strategy that `config.distributed.strategy` names; without one, `single`.

        Raises:
            SettingsError: there is no such strategy.
        """
        name = given(config, "distributed.strategy") or "single"
        if name not in cls.kinds:
            raise SettingsError(
                f"there is no strategy {name!r}", fix=f"expected one of {', '.join(cls.kinds)}"
            )
        return cls.kinds[name](config)

    def __enter__(self) -> DistributedStrategy:  # noqa: PYI034 - Self is of Python 3.11
        self.setup()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def world_size(self) -> int:
        return self.library.world_size

    @property
    def rank(self) -> int:
        return self.library.rank

    @property
    def local_rank(self) -> int:
        return self.library.local_rank

    @property
    def is_main_process(self) -> bool:
        """Whether this is rank 0."""
        return self.library.is_main_process

    @property
    def device(self) -> torch.device:
        return self.library.device

    def setup(self) -> None:
        """Join the other ranks; see `torchdeck.distributed.DistributedStrategy.setup`."""
        self.library.setup()

    def close(self) -> None:
        """Leave the other ranks, unless other code had joined them."""
        self.library.close()

    @arguments()
    def wrap_model(self, model: nn.Module) -> nn.Module:
        """Return the model to train, on this rank's device; make the optimizer afterwards.

        It joins the other ranks if `setup` was not called.
        """
        self.setup()
        wrapped = self.library.wrap_model(model)
        self._models[wrapped] = model
        return wrapped

    @arguments()
    def prepare_optimizer(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        """Return the optimizer to step; DeepSpeed needs this call, the others do not."""
        return self.library.prepare_optimizer(model, optimizer)

    @arguments(own_checks=True)
    def backward(self, loss: torch.Tensor) -> None:
        """Compute gradients, averaged over the ranks."""
        self.library.backward(loss)

    @arguments(own_checks=True)
    def clip_grad_norm(self, model: nn.Module, max_norm: float) -> float | None:
        """Clip the whole gradient over all ranks; return its norm before."""
        return self.library.clip_grad_norm(self._own(model), max_norm)

    @arguments(own_checks=True)
    def optimizer_step(self, optimizer: Optimizer) -> bool:
        """Step the optimizer; return False if fp16 gradients overflowed, and nothing was done.

        Needed in fp16, whose gradients are scaled; else `optimizer.step()` is the same.
        """
        return self.library.optimizer_step(optimizer)

    @arguments(own_checks=True)
    def to_device(self, batch: Any) -> Any:
        """Return `batch` with its tensors on this rank's device."""
        return self.library.to_device(batch)

    @arguments()
    def save_checkpoint(
        self,
        path: str | Path,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        timeout: float | None = None,
        **state: Any,
    ) -> Path:
        """Save weights, optimizer state, every rank's random state and `state` into the folder `path`.

        Args:
            path: folder for this checkpoint, the same for all ranks; an earlier checkpoint in it is replaced.
            model: as `wrap_model` returned it.
            optimizer: over its parameters.
            timeout: seconds that a rank waits for the others. Default: the strategy's.
            state: JSON values to save; `step` is the checkpoint's step.

        Returns:
            The checkpoint inside `path`, complete and on disk.

        Raises:
            CheckpointError: on every rank; also if `path` has a checkpoint of a later step, which would be
                loaded instead.
        """
        step = whole_number("step", state.get("step", 0), 0)
        later = newest_complete(Path(path))
        if later is not None and later.step > step:
            raise CheckpointError(
                f"{path} has a checkpoint of step {later.step}, which is later than step {step}: delete it, "
                "or save into another folder"
            )
        return self.save_in(path, model, optimizer, step=step, keep_last=1, state=state, timeout=timeout)

    def save_in(
        self,
        folder: str | Path,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        step: int,
        keep_last: int,
        state: Mapping[str, Any],
        timeout: float | None = None,
    ) -> Path:
        """Save as one of several checkpoints in `folder`; see `save` of the library's strategy."""
        return self.library.save(
            folder,
            self._own(model),
            optimizer,
            step=step,
            extra=state,
            keep_last=keep_last,
            timeout=timeout,
        )

    @arguments()
    def load_checkpoint(
        self,
        path: str | Path,
        model: nn.Module | None = None,
        optimizer: Optimizer | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Load a checkpoint of any strategy and world size.

        Args:
            path: as given to `save_checkpoint`; also a checkpoint or a folder of checkpoints.
            model: model to load into, as `wrap_model` returned it; together with `optimizer`. All ranks call
                this, and random states are restored, too.
            optimizer: optimizer to load into.
            timeout: as in `save_checkpoint`; needs `model` and `optimizer`.

        Returns:
            The `state` of `save_checkpoint`. Unless it was loaded into a model and an optimizer, also
            `model` and `optimizer`, whole state dicts on the CPU: for the model before it is wrapped, and
            for an optimizer whose parameters are not sharded.

        Raises:
            CheckpointError: there is none, it is damaged, or it is of another model or optimizer.
            ArgumentError: only one of `model` and `optimizer` is given.
        """
        if model is None and optimizer is None:
            return saved_state(Path(path))
        if model is None or optimizer is None:
            raise ArgumentError(
                "only one of model and optimizer is given", fix="give both to load into, or neither"
            )
        return dict(self.library.load(path, self._own(model), optimizer, timeout=timeout).extra)

    def _own(self, model: nn.Module) -> nn.Module:
        """Return the model as it was given to `wrap_model`."""
        return self._models.get(model, model)

    def _options(self) -> dict[str, Any]:
        """Return the strategy's own table of settings."""
        return {}

    def _precision(self) -> str:
        said = given(self.config, "training.mixed_precision")
        if said is None:
            said = self.usual_precision
        # YAML reads "no" as false
        return "fp32" if said is False or said in _FULL_PRECISION else str(said)
