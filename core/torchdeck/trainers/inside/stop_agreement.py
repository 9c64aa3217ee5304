"""Agrees with the other ranks on the step after which all of them stop.

Only rank 0 sees the stop file, so the others learn of it from the default process group's store. That needs
no collective: a rank that trains by itself is never waited for. Once all have acknowledged, rank 0 writes
down the next step. No rank can have passed it, because each step has a collective in which rank 0 takes part.
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchdeck.contract.waiting import wait_for

ASK_INTERVAL = 0.5
"""Seconds between looks at the store of a rank that has not heard of a stop."""
LOOK_INTERVAL = 0.05
"""Seconds between two looks for the stop file: steps may be shorter, and a look at a network drive longer."""
PATIENCE = 1.0
"""Most seconds that rank 0 waits for acknowledgements at the end of a step; at most a tenth of the step."""
SAVE_LIMIT = 600.0
"""Seconds that a rank waits for others that still save; a run's `launch.stop_grace` usually ends before."""


@contextlib.contextmanager
def save_at_stop() -> Iterator[None]:
    """Save inside this context; if that fails, the program ends, because the other ranks do.

    A guarded call would train on after an exception, and wait for ranks that have ended.

    Raises:
        SystemExit: with the reason.
    """
    try:
        yield
    except Exception as error:
        said = f"the save at this stop failed ({type(error).__name__}: {error})"
        raise SystemExit(f"torchdeck: {said}, and the program ends without it") from error


class StopAgreement:
    """One training's part of the agreement; `reached` is called after every optimizer step.

    Attributes:
        is_decided: this is rank 0, and has written down the last step.
    """

    def __init__(self, stop_file: Path | None, name: str) -> None:
        """Begin.

        Args:
            stop_file: file whose existence requests a stop; None: there is never one.
            name: of the training; the same on all ranks, and of no other training in this process.
        """
        self._stop_file = stop_file
        self._key = f"torchdeck/stop/{name}"
        self.is_decided = False
        self._heard = False
        self._is_requested = False
        self._looked = -math.inf
        self._known_group: _Group | None = None
        self._had_group = False
        self._asked = self._ended = time.monotonic()

    def reached(self, step: int) -> bool:
        """Return whether the training is to end after this step, which is `step` on every rank."""
        if self._stop_file is None:
            return False
        group = self._group()
        now = time.monotonic()
        if group is None:
            return self._look(self._stop_file, now)
        length, self._ended = now - self._ended, now
        if not self._heard and not self._hears(group, now):
            return False
        _wait_for_devices()
        if group.rank == 0 and not group.store.check([f"{self._key}/at"]):
            self._decide(group, step, now + min(PATIENCE, length / 10))
        return bool(group.store.check([f"{self._key}/at"])) and step >= int(
            group.store.get(f"{self._key}/at")
        )

    def wait_for_all(self) -> None:
        """Wait until all ranks have called this, such as before the first one exits."""
        group = self._group()
        if group is None:
            return
        with contextlib.suppress(RuntimeError):  # a store that is gone: rank 0 keeps it until all are here
            group.store.add(f"{self._key}/done", 1)
            wait_for(lambda: group.store.add(f"{self._key}/done", 0) >= group.size, SAVE_LIMIT, 0.05)

    def _group(self) -> _Group | None:
        """Return the default process group, looked up once; None if this rank trains by itself."""
        if _is_initialized() != self._had_group:
            self._had_group = not self._had_group
            self._known_group = _process_group() if self._had_group else None
        return self._known_group

    def _look(self, stop_file: Path, now: float) -> bool:
        """Return whether a stop is requested, as of the last look."""
        if not self._is_requested and now - self._looked >= LOOK_INTERVAL:
            self._looked = now
            self._is_requested = stop_file.exists()
        return self._is_requested

    def _hears(self, group: _Group, now: float) -> bool:
        """Return whether a stop is requested, and acknowledge it."""
        if group.rank == 0:
            self._heard = self._stop_file is not None and self._look(self._stop_file, now)
            if self._heard:
                group.store.set(f"{self._key}/asked", "1")
        elif now - self._asked >= ASK_INTERVAL:
            self._asked = now
            self._heard = bool(group.store.check([f"{self._key}/asked"]))
        if self._heard:
            group.store.add(f"{self._key}/acknowledged", 1)
        return self._heard

    def _decide(self, group: _Group, step: int, until: float) -> None:
        """Write down the next step as the last one, if all ranks look for it."""
        key, limit = f"{self._key}/acknowledged", until - time.monotonic()
        if wait_for(lambda: group.store.add(key, 0) >= group.size, limit, 0.01):
            group.store.set(f"{self._key}/at", str(step + 1))
            self.is_decided = True


class _Group:
    """The default process group: its store, this rank, and the number of ranks."""

    def __init__(self, distributed: Any) -> None:
        self.rank: int = distributed.get_rank()
        self.size: int = distributed.get_world_size()
        self.store: Any = distributed.distributed_c10d._get_default_store()  # noqa: SLF001 - torch has no public name


def _is_initialized() -> bool:
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and bool(distributed.is_initialized())


def _process_group() -> _Group | None:
    group = _Group(sys.modules["torch.distributed"])
    return group if group.size > 1 else None


def _wait_for_devices() -> None:
    """Wait until the GPU has done what was queued: a rank must not be further on the CPU than the others."""
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_available() and cuda.is_initialized():
        cuda.synchronize()
