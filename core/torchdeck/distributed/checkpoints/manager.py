"""Checkpoints of a hand-written training loop: schedule, retention, the best one, resuming."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol

from torch import nn
from torch.optim import Optimizer

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.contract.checkpoints.listing import CheckpointInfo, list_checkpoints, newest_complete
from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, CheckpointError, checkpoint_name
from torchdeck.data.checked import whole_number
from torchdeck.distributed.checkpoints.checkpoint_loading import load_all
from torchdeck.distributed.checkpoints.peers import Peers, truth
from torchdeck.distributed.checkpoints.resuming import TIMEOUT, peers_of, resume_newest, train_state
from torchdeck.distributed.checkpoints.retention import Retention
from torchdeck.distributed.checkpoints.snapshot import LoadedState, Sharing
from torchdeck.distributed.checkpoints.store import CheckpointStore
from torchdeck.distributed.checkpoints.tensors.training_tensors import TrainingTensors
from torchdeck.environment import RunContext


class Stateful(Protocol):
    """A learning-rate scheduler or a gradient scaler."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any: ...


class CheckpointManager:
    """Checkpoints of one training in one directory. All ranks call the same methods together.

    It works in a single process, under torchrun with DistributedDataParallel or FSDP2, and with a strategy:

        with CheckpointManager("checkpoints", every=100, keep_best=1) as checkpoints:
            loaded = checkpoints.restore(model, optimizer)
            for step in range(loaded.step + 1 if loaded else 1, steps + 1):
                train(step)
                if checkpoints.should_save(step):
                    checkpoints.save(step, model, optimizer, metrics={"validation_loss": evaluate()})

    While the manager is open, another process that saves there is refused.

    Args:
        directory: directory for these checkpoints only, the same for all ranks; created if missing.
        every: steps between checkpoints, for `should_save`. Default: it never returns True.
        keep_last: number of newest checkpoints to keep.
        keep_every: keep checkpoints whose step is a multiple of this.
        keep_best: number of best checkpoints to keep.
        best_metric: a name among the `metrics` of `save`.
        best_is: which values of it are best.
        background: `save` returns once the state is copied; it is written while training continues.
        strategy: the strategy of the ranks. Default: model and optimizers hold the whole state.
        run_id: name in the manifests. Default: the run that Torchdeck started, else the directory's name.
        timeout: seconds that a rank waits for the others to make the same call, and in each phase of a save
            or load.
        replicas: number of other nodes that copy each node's part, if nodes have no shared folder.

    Raises:
        CheckpointError: the directory cannot be used (on rank 0), or a rank does not make the manager, too;
            the message names it.
        ValueError: a number is out of range.
    """

    @arguments()
    def __init__(
        self,
        directory: str | Path,
        *,
        every: int | None = None,
        keep_last: int = 3,
        keep_every: int | None = None,
        keep_best: int = 0,
        best_metric: str = "validation_loss",
        best_is: Literal["lowest", "highest"] = "lowest",
        background: bool = False,
        strategy: Sharing | None = None,
        run_id: str | None = None,
        timeout: float = TIMEOUT,
        replicas: int = 0,
    ) -> None:
        if every is not None and every < 1:
            raise ArgumentError(f"every is {every}", fix="expected a number of steps from 1, or None")
        self.directory = Path(directory)
        self.retention = Retention(keep_last, keep_every, keep_best, best_metric, best_is)
        self._every = every
        self._background = background
        self._strategy = strategy
        self._scaler: Stateful | None = None if strategy is None else strategy.scaler
        self._peers = peers_of(strategy, timeout)
        self._peers.call("CheckpointManager")
        context = RunContext.from_env()
        self._store = CheckpointStore(
            self.directory,
            self.retention,
            run_id=run_id or context.run_id or self.directory.resolve().name,
            attempt=context.attempt,
            rank=self._peers.rank,
            world_size=self._peers.world_size,
            strategy=_kind(strategy, self._peers.world_size),
            timeout=timeout,
            replicas=replicas,
        )

    def __enter__(self) -> CheckpointManager:  # noqa: PYI034 - Python 3.10 has no Self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.wait()
        self.close()

    @arguments()
    def should_save(self, step: int) -> bool:
        """Return whether a checkpoint is due after `step` optimizer steps."""
        return self._every is not None and step > 0 and step % self._every == 0

    @arguments()
    def save(
        self,
        step: int,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer],
        *,
        scheduler: Stateful | None = None,
        scaler: Stateful | None = None,
        position: Mapping[str, Any] | None = None,
        extra: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
        final: bool = False,
        timeout: float | None = None,
    ) -> Path:
        """Save everything as `step_<step>`, and delete checkpoints that are no longer kept.

        Args:
            step: number of optimizer steps done.
            model: plain, or inside DDP, FSDP2 or torch.compile; with a strategy as given to `wrap_model`.
            optimizer: one, or several in a fixed order.
            scheduler: learning rate scheduler to save.
            scaler: gradient scaler to save. Default: the strategy's.
            position: position in the data, as JSON values.
            extra: any other JSON values to save.
            metrics: metrics of an evaluation at this step.
            final: name it `final`; it is never deleted.
            timeout: seconds to wait until every rank has called this. Default: the manager's.

        Returns:
            The folder of the checkpoint, which is complete unless it is written in the background.

        Raises:
            CheckpointError: on every rank: this save, or the previous one in the background, failed, or a
                rank did not call this; the message names it. Earlier checkpoints are unchanged.
        """
        step = whole_number("step", step, 0)
        self._peers.call("save", f"step {step}", timeout=timeout)
        state = train_state(model, optimizer, self._strategy)
        state.scheduler_state = scheduler.state_dict() if scheduler is not None else {}
        scaler = scaler or self._scaler
        state.scaler_state = scaler.state_dict() if scaler is not None else {}
        state.position, state.extra = dict(position or {}), dict(extra or {})
        if self._background and not final:
            self._store.save_in_background(state, step, metrics=metrics)
            return self.directory / checkpoint_name(step)
        return self._store.save(state, step, final=final, metrics=metrics)

    def wait(self) -> None:
        """Wait until a background save is on disk. Raises CheckpointError if it failed."""
        self._store.wait()

    @arguments()
    def restore(
        self,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer],
        *,
        scheduler: Stateful | None = None,
        scaler: Stateful | None = None,
        timeout: float | None = None,
    ) -> LoadedState | None:
        """Continue from the newest intact checkpoint, of any world size; None if there is none.

        See `auto_resume`. The states of `scheduler` and `scaler` are restored, too. `timeout`: see
        `save`.
        """
        self._peers.call("restore", timeout=timeout)
        self.wait()
        state = train_state(model, optimizer, self._strategy)
        loaded = resume_newest(self.directory, state, self._peers)
        scaler = scaler or self._scaler
        if loaded is not None:
            if scheduler is not None and loaded.scheduler_state:
                scheduler.load_state_dict(loaded.scheduler_state)
            if scaler is not None and loaded.scaler_state:
                scaler.load_state_dict(loaded.scaler_state)
        return loaded

    def all(self) -> list[CheckpointInfo]:
        """The complete checkpoints that this rank sees, oldest first; their files are not hashed."""
        return [info for info in list_checkpoints(self.directory) if info.complete]

    def latest(self) -> CheckpointInfo | None:
        """The newest complete checkpoint, not hashed; None if there is none."""
        return newest_complete(self.directory)

    def best(self) -> CheckpointInfo | None:
        """The complete checkpoint with the best `best_metric`; None if no checkpoint has that metric."""
        by_step = {info.step: info for info in self.all()}
        metrics = {
            step: info.manifest.current_metrics for step, info in by_step.items() if info.manifest is not None
        }
        best = self.retention.best(metrics)
        return by_step[best[0]] if best else None

    def close(self) -> None:
        """Allow other processes to save there."""
        self._store.close()


def _kind(strategy: Sharing | None, world_size: int) -> str:
    """Return the manifest's description of the ranks' strategy."""
    if strategy is not None:
        return strategy.name
    return "single" if world_size == 1 else "own"


# Checkpoints of a hand-written loop: one call to save, one to resume.

Optimizers = Optimizer | Sequence[Optimizer]


def save_training(
    strategy: Sharing,
    folder: Path,
    model: nn.Module,
    optimizers: Optimizers,
    *,
    step: int,
    extra: Mapping[str, Any],
    keep_last: int,
    timeout: float | None = None,
) -> Path:
    """See `DistributedStrategy.save`."""
    _called_by_all(strategy, "save", f"step {step}", timeout)
    state = train_state(model, optimizers, strategy)
    state.scaler_state = strategy.scaler.state_dict()
    state.extra = dict(extra)
    with _store(strategy, folder, keep_last, TIMEOUT if timeout is None else timeout) as store:
        saved = store.save(state, step)
        store.leave()
        return saved


def load_training(
    strategy: Sharing,
    folder: Path,
    model: nn.Module,
    optimizers: Optimizers,
    tensors: TrainingTensors | None = None,
    *,
    timeout: float | None = None,
) -> LoadedState:
    """See `DistributedStrategy.load`; `tensors` is used if more than the strategy's are to be filled."""
    peers = _called_by_all(strategy, "load", "", timeout)
    state = train_state(model, optimizers, strategy)
    state.tensors = tensors or state.tensors
    # in the meantime another rank may have seen more of a network-shared folder
    is_one = peers.first(f"looking into {folder}", (folder / MANIFEST_NAME).exists, truth)
    loaded = load_all(folder, state, peers) if is_one else resume_newest(folder, state, peers)
    peers.leave()
    if loaded is None:
        raise CheckpointError(
            f"there is no checkpoint in {folder}", fix="check the folder, or save one first"
        )
    strategy.scaler.load_state_dict(dict(loaded.scaler_state))
    return loaded


def _called_by_all(strategy: Sharing, what: str, detail: str, timeout: float | None) -> Peers:
    """Return the ranks of `strategy`, all of which have made this call."""
    peers = peers_of(strategy, TIMEOUT if timeout is None else timeout)
    peers.call(what, detail, timeout=strategy.timeout if timeout is None else timeout)
    return peers


@contextmanager
def _store(strategy: Sharing, folder: Path, keep_last: int, timeout: float) -> Iterator[CheckpointStore]:
    context = RunContext.from_env()
    store = CheckpointStore(
        folder,
        retention=Retention(keep_last),
        run_id=context.run_id or folder.resolve().name,
        attempt=context.attempt,
        rank=strategy.rank,
        world_size=strategy.world_size,
        strategy=strategy.name,
        timeout=timeout,
    )
    try:
        yield store
    finally:
        store.close()
