"""The process of bench_checkpoints: one model, saved and restored in turn by every way; prints JSON.

`{"lost": {way: [seconds that training took longer for its first save, for its second, …]}, "stall": {way:
[seconds that the call alone took, …]}, "late": {way: [seconds after its window until it was written, …]},
"save": {way: [[seconds, seconds of CPU], …]}, "restore": …}`. The last two are without training.
"""

import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import (
    AsyncCheckpointerType,
    AsyncSaveResponse,
    async_save,
)
from torch.distributed.checkpoint.state_dict_saver import (
    save as dcp_save,
)

from torchdeck.distributed.checkpoints.retention import Retention
from torchdeck.distributed.checkpoints.store import CheckpointStore, TrainState

WIDTH, LAYERS = 2048, 4
"""Four layers of 2048 × 2048 in fp32 with Adam's two moments: 192 MiB of state."""
BATCH = 32
STEPS = 16
"""In a window; longer than any save takes."""
ROUNDS = 8
FOREGROUND_ROUNDS = 15
WARM_UP = 1


class Training:
    """The model, and steps of it."""

    def __init__(self, seed: int = 0) -> None:
        torch.manual_seed(seed)
        layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.batch = torch.randn(BATCH, WIDTH)
        self.steps = 0
        self.stall = 0.0

    def window(self, save: Callable[[], object] | None = None) -> float:
        """Seconds of STEPS steps, with a save after the first; `stall` is then how long its call took."""
        began = time.perf_counter()
        for step in range(STEPS):
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.model(self.batch).square().mean()
            loss.backward()
            self.optimizer.step()
            self.steps += 1
            if step == 0 and save is not None:
                called = time.perf_counter()
                save()
                self.stall = time.perf_counter() - called
        return time.perf_counter() - began


class Ways:
    """Every way to save, each into a folder of its own."""

    def __init__(self, training: Training, folder: Path) -> None:
        self._training = training
        self._folder = folder
        self._pending: list[Future[Any]] = []
        self._stores = {
            name: CheckpointStore(folder / name, Retention(1), "benchmark", 1, 0, 1, "single")
            for name in ("background", "at once")
        }
        self.all: dict[str, Callable[[], object]] = {
            "background": self._in_background,
            "at once": lambda: self._stores["at once"].save(self._state(), training.steps),
            "torch.save": self._by_hand,
            "async thread": lambda: self._async(AsyncCheckpointerType.THREAD),
            "async process": lambda: self._async(AsyncCheckpointerType.PROCESS),
        }

    def wait(self) -> None:
        """Until nothing is being written."""
        self._stores["background"].wait()
        for future in self._pending:
            future.result()
        self._pending.clear()

    def close(self) -> None:
        for store in self._stores.values():
            store.close()

    def _state(self) -> TrainState:
        return TrainState(self._training.model, [self._training.optimizer])

    def _in_background(self) -> None:
        self._stores["background"].save_in_background(self._state(), self._training.steps)

    def _tensors(self) -> dict[str, object]:
        state = self._training.optimizer.state_dict()["state"]
        return {
            "model": self._training.model.state_dict(),
            "optimizer": {str(index): values for index, values in state.items()},
        }

    def _by_hand(self) -> None:
        path = self._folder / "by-hand.pt"
        with path.open("wb") as file:
            torch.save(self._tensors(), file)
            file.flush()
            os.fsync(file.fileno())

    def _async(self, kind: AsyncCheckpointerType) -> None:
        future = async_save(
            self._tensors(), checkpoint_id=self._folder / kind.value, async_checkpointer_type=kind
        )
        self._pending.append(future.upload_completion if isinstance(future, AsyncSaveResponse) else future)


class Foreground:
    """Every way to save and wait, and to restore what it saved into a new model and optimizer."""

    def __init__(self, training: Training, folder: Path) -> None:
        self._training = training
        self._new = training
        """What is restored into."""
        self._folder = folder
        self._order = random.Random(0)  # noqa: S311 - nothing secret
        self._store = CheckpointStore(folder / "ours", Retention(1), "benchmark", 1, 0, 1, "single")
        self._saved = self._saved_by_dcp = folder / "none"
        self.saves: dict[str, Callable[[], object]] = {
            "ours": self._save,
            "DCP": self._dcp_save,
            "torch": self._torch_save,
        }
        self.restores: dict[str, Callable[[], object]] = {
            "ours": lambda: self._store.load(self._saved, TrainState(self._new.model, [self._new.optimizer])),
            "DCP": self._dcp_load,
            "DCP in place": lambda: dcp_load(self._tensors(training), checkpoint_id=self._saved_by_dcp),
            "torch": self._torch_load,
        }

    def round(self, measured: dict[str, dict[str, list[tuple[float, float]]]]) -> None:
        """One save and one restore by every way; in another order each time, as memory goes to the next."""
        for name in self._order.sample(list(self.saves), len(self.saves)):
            measured["save"][name].append(_measured(self.saves[name]))
        for name in self._order.sample(list(self.restores), len(self.restores)):
            self._new = Training(seed=1)
            measured["restore"][name].append(_measured(self.restores[name]))
        self._training.steps += 1

    def close(self) -> None:
        self._store.close()

    def _save(self) -> None:
        state = TrainState(self._training.model, [self._training.optimizer])
        self._saved = self._store.save(state, self._training.steps)

    def _dcp_save(self) -> None:
        """Into a new folder, as ours: a save over the one before leaves none if it fails."""
        before, self._saved_by_dcp = self._saved_by_dcp, self._folder / f"dcp-{self._training.steps}"
        dcp_save(self._tensors(self._training), checkpoint_id=self._saved_by_dcp)
        shutil.rmtree(before, ignore_errors=True)

    @staticmethod
    def _tensors(training: Training) -> dict[str, Any]:
        model, optimizer = get_state_dict(training.model, training.optimizer)
        return {"model": model, "optimizer": optimizer}

    def _dcp_load(self) -> None:
        """As its documentation shows it: the new optimizer gets a state first, which is then overwritten."""
        tensors = self._tensors(self._new)
        dcp_load(tensors, checkpoint_id=self._saved_by_dcp)
        set_state_dict(
            self._new.model,
            self._new.optimizer,
            model_state_dict=tensors["model"],
            optim_state_dict=tensors["optimizer"],
        )

    def _torch_save(self) -> None:
        training = self._training
        with (self._folder / "new.pt").open("wb") as file:
            torch.save([training.model.state_dict(), training.optimizer.state_dict()], file)
            file.flush()
            os.fsync(file.fileno())
        (self._folder / "new.pt").replace(self._folder / "saved.pt")

    def _torch_load(self) -> None:
        model, optimizer = torch.load(self._folder / "saved.pt", weights_only=True)
        self._new.model.load_state_dict(model)
        self._new.optimizer.load_state_dict(optimizer)


def _measured(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and seconds of CPU."""
    began, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - began, time.process_time() - used


def foreground(training: Training, folder: Path) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Saves and restores by every way in turn."""
    ways = Foreground(training, folder)
    measured: dict[str, dict[str, list[tuple[float, float]]]] = {
        "save": {name: [] for name in ways.saves},
        "restore": {name: [] for name in ways.restores},
    }
    for _ in range(WARM_UP + FOREGROUND_ROUNDS):
        ways.round(measured)
    ways.close()
    return {
        kind: {name: found[WARM_UP:] for name, found in by_way.items()} for kind, by_way in measured.items()
    }


def background(training: Training, folder: Path) -> dict[str, dict[str, list[float]]]:
    """Windows of training steps with a save by every way in turn."""
    ways = Ways(training, folder)
    lost: dict[str, list[float]] = {name: [] for name in ways.all}
    stall: dict[str, list[float]] = {name: [] for name in ways.all}
    late: dict[str, list[float]] = {name: [] for name in ways.all}
    for round_ in range(WARM_UP + ROUNDS):
        before = training.window()
        for name, save in ways.all.items():
            seconds = training.window(save)
            ended = time.perf_counter()
            ways.wait()
            waited = time.perf_counter() - ended
            after = training.window()
            if round_ >= WARM_UP:
                late[name].append(waited)
                lost[name].append(seconds - statistics.mean((before, after)))
                stall[name].append(training.stall)
            before = after
    ways.close()
    return {"lost": lost, "stall": stall, "late": late}


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="bench-checkpoints-", dir=sys.argv[1] if sys.argv[1:] else None))
    dist.init_process_group("gloo", init_method=f"file://{folder}/join", rank=0, world_size=1)
    training = Training()
    found = background(training, folder) | foreground(training, folder)
    shutil.rmtree(folder)
    print(json.dumps(found))
    sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
