"""A process that reads a fuzzer's cases, one after the other, with bounds on memory and time."""

from __future__ import annotations

import multiprocessing
import os
import resource
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self

MEMORY = 1 << 30
"""Bytes of memory that one case may add to what the process has after its imports."""
SECONDS = 10.0
"""Processor time that one case may take."""
WAITED = 120.0
"""The same by the clock: a busy machine may have other things to do."""
_START_LIMIT = 120.0

Reader = Callable[[bytes, Path], object]
"""A function of a module. It reads one case, may use an empty folder, and catches the documented errors."""


class ReaderProcess:
    """Runs one reader on case after case. Use it as a context manager."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        self._folder = tempfile.TemporaryDirectory(prefix="reader-")
        self._ours, theirs = context.Pipe()
        arguments = (self._reader, theirs, self._folder.name)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        assert self._answer(_START_LIMIT) == "", "the reader did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ours.close()
        self._process.join(SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()
        self._folder.cleanup()

    def read(self, case: bytes) -> None:
        """Give the reader a case. It fails the test if the reader raises, or exceeds a bound."""
        self._ours.send_bytes(case)
        problem = self._answer(WAITED)
        assert not problem, f"{problem}\ncase of {len(case)} bytes: {case[:2000]!r}"

    def _answer(self, limit: float) -> str:
        try:
            if not self._ours.poll(limit):
                self._process.kill()
                return f"it took longer than {limit:g} s"
            return str(self._ours.recv())
        except (EOFError, ConnectionError):
            self._process.join()
            return f"the process ended with {self._process.exitcode}"


def _serve(reader: Reader, pipe: Connection, folder: str) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    pipe.send("")
    while True:
        try:
            case = pipe.recv_bytes()
        except EOFError:
            return
        with tempfile.TemporaryDirectory(dir=folder) as place:
            pipe.send(_problem(reader, case, Path(place)))


def _problem(reader: Reader, case: bytes, place: Path) -> str:
    began = time.process_time()
    try:
        reader(case, place)
    except BaseException:  # noqa: BLE001 - whatever a reader lets through is what the test is for
        return traceback.format_exc()[-4000:]
    took = time.process_time() - began
    return "" if took <= SECONDS else f"it took {took:.1f} s of processor time"
