"""A wish to stop that comes as SIGTERM, which is how a run asks its script."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from torchdeck.distributed.trainer.stop import StopFlag


class StopSignal:
    """Takes SIGTERM for the wish to finish the step, save and return, beside the stop file of a run.

    Any rank may get it; the others hear of it in the reduction of the step.

    Args:
        file: the stop file, for rank 0.
    """

    def __init__(self, file: StopFlag) -> None:
        self._file = file
        self._came = False

    def wished(self) -> bool:
        """Whether this rank was asked; it stays so."""
        return self._came or self._file.wished()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """SIGTERM is a wish in here; afterwards it does what it did before.

        A script that has a handler of its own keeps it, as one that trains in another thread than the main
        one, where Python lets nobody set handlers.
        """
        own = signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        if own or threading.current_thread() is not threading.main_thread():
            yield
            return
        signal.signal(signal.SIGTERM, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - what handlers get
        self._came = True
