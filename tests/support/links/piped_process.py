"""A local process as the probe talks to one on a node."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


class PipedProcess:
    """Standard input, output and errors of a child."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=env
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input, self._output = self.process.stdin, self.process.stdout

    @property
    def stderr(self) -> bytes:
        return os.pread(self._errors.fileno(), 2**16, 0)

    def write(self, data: bytes) -> None:
        self._input.write(data)
        self._input.flush()

    def read(self, size: int, limit: float) -> bytes:
        ready, _, _ = select.select([self._output], [], [], limit)
        if not ready:
            raise TimeoutError
        return os.read(self._output.fileno(), size)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(10)
        for stream in (self._input, self._output, self._errors):
            try:
                stream.close()
            except BrokenPipeError:
                continue


@contextmanager
def piped_process(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Iterator[PipedProcess]:
    """One that is ended at the end."""
    process = PipedProcess(argv, env)
    try:
        yield process
    finally:
        process.close()
