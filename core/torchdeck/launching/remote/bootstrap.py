"""Starting the link server on a node that has nothing but a Python: one round trip where our part is there.

The command line holds a stub that reads the loader from standard input, so that nothing of the run stands in
it. The loader (`agent/link/loader.py`) checks the shipped folder and takes an archive when it is missing.
"""

from __future__ import annotations

import json
import secrets
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torchdeck.agent.link.loader
from torchdeck.contract.bounded_json import JsonError, parse_json_object
from torchdeck.launching.runtime_bundle import PACKAGE, BundleError
from torchdeck.shown_text import shown_line

# Python 2 and early 3 can parse this too, and report the problem instead of a syntax error
_STUB = """# Torchdeck: the link to this node, or an agent that it started
import os, sys
if sys.version_info < (3, 10):
    sys.exit("Torchdeck needs Python 3.10 or newer; %s is %s" % (sys.executable, sys.version.split()[0]))
import contextlib, hashlib, json, shutil, tempfile, zlib  # of the loader: it may not come at once
def take(n):
    b = b""
    while len(b) < n:
        d = os.read(0, n - len(b))
        if not d:
            sys.exit(3)
        b += d
    return b
exec(compile(take(int(take(8))), "torchdeck loader", "exec"), {"__name__": "__main__", "take": take})
"""
PYTHON_ARGUMENTS = ("-I", "-B", "-c", _STUB)
"""Arguments of the node's Python: it reads a loader's text, preceded by its length in eight digits."""
NOISE_LIMIT = 64 * 1024
"""Bytes that a login may print before our first line."""
_ENTRY = """
import json, os, sys
order = json.loads(take(int(take(8))))
reading, writing = os.dup(0), os.dup(1)
nothing = os.open(os.devnull, os.O_RDWR)
os.dup2(nothing, 0)
os.dup2(2, 1)
os.write(writing, ("\\n" + order["marker"] + "\\n").encode())
sys.exit(main(order, reading, writing))
"""


class BootstrapError(Exception):
    """The link server could not be started on the node; the message says why."""


def packed(shipped: Path) -> bytes:
    """Return the archive of a runtime bundle, as the loader takes it.

    Raises:
        BundleError: it cannot be read.
    """
    package = shipped / PACKAGE
    try:
        paths = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        content = {path.relative_to(package).as_posix(): path.read_bytes() for path in paths}
    except OSError as error:
        raise BundleError(f"{shipped} cannot be read", error.strerror) from error
    # in the order from which the folder's name was computed
    names = sorted(content)
    head = json.dumps([[name, len(content[name])] for name in names]).encode("ascii") + b"\n"
    return zlib.compress(head + b"".join(content[name] for name in names), 6)


class Bootstrap:
    """Process started with `PYTHON_ARGUMENTS` that becomes a link server.

    Attributes:
        stream: the process.
        shipped: its runtime bundle.
    """

    def __init__(self, stream: ByteStream, shipped: Path, home: str) -> None:
        """No output yet.

        Args:
            stream: the process.
            shipped: the run's shipped folder on this side, named by its hash.
            home: TORCHDECK_HOME there; empty for the usual one.
        """
        self.stream = stream
        self.shipped = shipped
        self._told = {"home": home, "hash": shipped.name}
        self._answers = _Answers(stream)
        self._marker = f"torchdeck-link-{secrets.token_hex(16)}"

    def begin(self, order: Mapping[str, Any], limit: float) -> bytes:
        """Begin the link.

        Args:
            order: what the link server is told.
            limit: seconds for all of it.

        Returns:
            The first bytes of the link, if any came already.

        Raises:
            BootstrapError: the node cannot be used.
            TimeoutError: it took too long.
            OSError: the way to it is gone.
            BundleError: the shipped folder cannot be read.
        """
        self._answers.give(limit)
        first = json.dumps({**self._told, "marker": self._marker}).encode("ascii")
        loader = Path(torchdeck.agent.link.loader.__file__).read_bytes() + _ENTRY.encode("ascii")
        self._answers.send(b"".join(map(_measured, (loader, first, json.dumps(order).encode("ascii")))))
        self._answers.pass_over(self._marker)
        answer = self._answers.line()
        if answer.get("need") == self.shipped.name:
            archive = packed(self.shipped)
            self._answers.send(len(archive).to_bytes(8, "big") + archive)
            answer = self._answers.line()
        self._check_ready(answer)
        return self._answers.rest

    def _check_ready(self, answer: Mapping[str, Any]) -> None:
        if "failed" in answer:
            raise BootstrapError(str(answer["failed"])[:2000])
        if answer.get("ready") is not True:
            raise BootstrapError(f"the node answered {str(answer)[:200]!r}")


def _measured(part: bytes) -> bytes:
    """Return `part`, preceded by its length in eight digits."""
    return b"%08d" % len(part) + part


class _Answers:
    """Lines of the loader's answers, read with a timeout."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._deadline = 0.0
        self.rest = b""

    def give(self, limit: float) -> None:
        """Set the timeout to so many seconds from now."""
        self._deadline = time.monotonic() + limit

    def send(self, data: bytes) -> None:
        try:
            self._stream.write(data)
        except OSError as error:
            if self._stream.stderr:  # it ended with an error message
                raise BootstrapError(
                    f"the node's Python ended{_said(self._stream.stderr.encode())}"
                ) from error
            raise

    def pass_over(self, marker: str) -> None:
        """Skip everything up to the line `marker`."""
        needle = f"\n{marker}\n".encode("ascii")
        while needle not in self.rest:
            if len(self.rest) > NOISE_LIMIT:
                raise BootstrapError(f"the node's login prints endlessly: {_shown(self.rest)}")
            self._more()
        self.rest = self.rest.partition(needle)[2]

    def line(self) -> dict[str, Any]:
        """Return the next line's JSON."""
        while b"\n" not in self.rest:
            if len(self.rest) > NOISE_LIMIT:
                raise BootstrapError("the node's answer is an endless line")
            self._more()
        line, _, self.rest = self.rest.partition(b"\n")
        try:
            return parse_json_object(line, limit=2 * NOISE_LIMIT)
        except JsonError as error:
            raise BootstrapError(f"the node answered {_shown(line)}") from error

    def _more(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"the node's Python did not answer in time{_said(self.rest)}")
        try:
            data = self._stream.read(64 * 1024, left)
        except TimeoutError:
            raise TimeoutError(f"the node's Python did not answer in time{_said(self.rest)}") from None
        if not data:
            said = self._stream.stderr.encode() or self.rest
            raise BootstrapError(f"the node's Python ended (exit code {self._stream.exit_code}){_said(said)}")
        self.rest += data


def _said(noise: bytes) -> str:
    return f"; its output: {_shown(noise)}" if noise.strip() else ""


def _shown(noise: bytes) -> str:
    return shown_line(noise[-500:].decode("utf-8", "replace"))


class ByteStream(Protocol):
    """Standard input and output of a process on a node."""

    def write(self, data: bytes) -> None:
        """Send all of `data`. Raises OSError if the process or the connection is gone."""

    def read(self, size: int, limit: float) -> bytes:
        """Read up to `size` bytes, as soon as there are any; empty if the process has closed its output.

        Raises:
            TimeoutError: no data for `limit` seconds.
            OSError: the connection is lost.
        """

    @property
    def exit_code(self) -> int | None:
        """Exit code of the process; None while it is alive, or if unknown."""

    @property
    def stderr(self) -> str:
        """End of its standard error, as far as it was received."""

    def close(self) -> None:
        """Close it, from any thread; a blocked reader is woken."""
