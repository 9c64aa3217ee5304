"""A link's byte stream over the pipes of a process of this machine."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence

from torchdeck.launching.remote.bootstrap import PYTHON_ARGUMENTS


class LocalStream:
    """Standard input and output of a child process, as `launch.remote.stream.ByteStream`."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else dict(env),
            bufsize=0,
        )
        assert self.process.stderr is not None
        os.set_blocking(self.process.stderr.fileno(), False)
        self._said = b""
        self._woken, self._wake = os.pipe()
        self._closed = False

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        if self._closed:
            raise BrokenPipeError("closed")
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def read(self, size: int, limit: float) -> bytes:
        assert self.process.stdout is not None
        output = self.process.stdout.fileno()
        ready, _, _ = select.select([output, self._woken], [], [], limit)
        if self._woken in ready:
            return b""
        if not ready:
            raise TimeoutError(f"nothing came for {limit} s")
        return os.read(output, size)

    @property
    def exit_code(self) -> int | None:
        return self.process.poll()

    @property
    def stderr(self) -> str:
        assert self.process.stderr is not None
        if not self.process.stderr.closed:
            self._said += self.process.stderr.read() or b""
        return self._said.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """As a connection that is given up: the process sees its input end."""
        if not self._closed:
            self._closed = True
            os.write(self._wake, b"x")
            assert self.process.stdin is not None
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def kill(self) -> None:
        self.process.kill()
        self.close()
        self.reap()

    def reap(self, seconds: float = 20.0) -> int:
        """Wait for the process and free what it held; its exit code."""
        self.close()
        code = self.process.wait(seconds)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()
        for descriptor in (self._woken, self._wake):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        return code


def python_stream(python: str = sys.executable) -> LocalStream:
    """A node's Python that waits for the loader."""
    return LocalStream([python, *PYTHON_ARGUMENTS])
