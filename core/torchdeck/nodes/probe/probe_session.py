"""Requests to a node's Python over one channel, each answered by a JSON line within a timeout."""

from __future__ import annotations

import contextlib
import json
import re
import time
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from torchdeck.contract.bounded_json import JsonError, parse_json_object
from torchdeck.contract.journal import LATEST
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.package import FOLDER
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.ssh.errors import UnreachableError
from torchdeck.quantities import size

ANSWER_LIMIT = 4 * 2**20
"""Maximum bytes of an answer; a node sends a few thousand."""
ERROR_LENGTH = 2000
"""Maximum characters of an error reported by a node."""
PINGS = 4
"""Number of time requests for comparing clocks; the fastest counts."""
LAST_WORDS_LIMIT = 3.0
"""Seconds to read the remaining output of a Python that accepts no more requests."""
MOST_LINES = 3
"""Number of last lines of its standard error that are quoted."""
_VERSION = 1


class ProbeError(Refusal):
    """A node did not answer, or not correctly; the message quotes its output."""

    page = "trouble/failed#a-node-is-not-reachable"


class PythonEndedError(ProbeError):
    """The process started as a node's Python has ended, or never was one: the interpreter is at fault, not
    the connection.
    """


@contextlib.contextmanager
def understood(node: str) -> Iterator[None]:
    """Turn errors while parsing an answer of `node` into a ProbeError."""
    try:
        yield
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        what = _short(f"{type(error).__name__}: {error}")
        raise ProbeError(f"{node} sent an invalid answer: {what}") from error


class RemoteProcess(Protocol):
    """Interface to a process on a node, as far as sessions need it."""

    @property
    def stderr(self) -> bytes:
        """End of its standard error, as far as `read` received it."""

    def write(self, data: bytes) -> None:
        """Write to its standard input. Raises OSError or SshError."""

    def read(self, size: int, limit: float) -> bytes:
        """Read at most `size` bytes of its output, empty at its end. Raises TimeoutError, OSError or
        SshError.
        """

    def close(self) -> None:
        """End the process."""


class ClockOffset(NamedTuple):
    """Offset of a node's clock from ours."""

    seconds: float
    """Its time minus ours."""
    error: float
    """Error margin: half of the round-trip time."""


class ProbeSession:
    """Sends requests to the code of `sent_code` on a node. Use it from one thread at a time.

    Attributes:
        spent: seconds used to open it, out of the timeout for everything; 0 for a pooled one.
    """

    def __init__(self, process: RemoteProcess, node: str, spent: float = 0.0) -> None:
        """Send the code to a Python that was started with `sent_code.ARGUMENTS`. Raises ProbeError."""
        self.spent = spent
        self._process = process
        self._node = node
        self._rest = b""
        self._write(payload())

    def ask(self, what: ProbeRequest, limit: float, /, **fields: Any) -> Mapping[str, Any]:
        """Return the answer to one request.

        Args:
            what: the request.
            limit: timeout in seconds for the answer.
            fields: fields of the request; see `torchdeck.agent.probe.answer`.

        Raises:
            ProbeError: no answer in time, or an unreadable one.
        """
        self.send(what, **fields)
        return self.receive(what, limit)

    def send(self, what: ProbeRequest, /, **fields: Any) -> None:
        """Send a request without waiting, for callers that pipeline requests. Raises ProbeError."""
        self._write(json.dumps({"ask": what, **fields}).encode("utf-8") + b"\n")

    def receive(self, what: ProbeRequest, limit: float) -> Mapping[str, Any]:
        """Return the answer to the oldest unanswered request; as `ask`."""
        try:
            line = self._line(limit)
        except TimeoutError:
            said = _quoted(self._process.stderr)
            raise ProbeError(
                f"{self._node} did not answer {what.value!r} within {round(limit, 1):g} s{said}"
            ) from None
        except OSError as error:
            raise ProbeError(f"{self._node}: the connection broke: {error}") from error
        return self._answer(line)

    def _answer(self, line: bytes) -> Mapping[str, Any]:
        try:
            answer = parse_json_object(line, limit=ANSWER_LIMIT)
            version = answer["v"]
        except (JsonError, KeyError):
            raise ProbeError(
                f"{self._node} answered {line[:200].decode('utf-8', 'replace')!r}, which is no answer: "
                "does its Python print something when it starts (sitecustomize, a .pth file)?"
            ) from None
        if version != _VERSION:
            raise ProbeError(
                f"{self._node} answered in format {_short(version)}, this Torchdeck reads {_VERSION}"
            )
        if "error" in answer:
            raise ProbeError(f"{self._node}: {_short(answer['error'])}")
        return answer

    def clock(self, limit: float = 5.0) -> ClockOffset:
        """Return the offset of the node's clock from ours, measured like NTP (RFC 5905, section 8).

        Args:
            limit: timeout in seconds for all requests together.

        Raises:
            ProbeError: no answer in time.
        """
        best: ClockOffset | None = None
        until = time.monotonic() + limit
        for _ in range(PINGS):
            left = max(0.0, until - time.monotonic())
            before = time.time()
            there = self.ask(ProbeRequest.TIME, left).get("time")
            after = time.time()
            if not isinstance(there, (int, float)) or not 0 <= there < LATEST:
                raise ProbeError(f"{self._node} did not report its time")
            found = ClockOffset(there - (before + after) / 2, (after - before) / 2)
            best = found if best is None or found.error < best.error else best
        assert best is not None  # noqa: S101 - for the type checker: PINGS is not 0
        return best

    def close(self) -> None:
        """End the Python on the node."""
        self._process.close()

    def _write(self, data: bytes) -> None:
        try:
            self._process.write(data)
        except (BrokenPipeError, UnreachableError) as error:
            raise self._ended() from error
        except OSError as error:
            raise ProbeError(f"{self._node}: the connection broke: {error}") from error

    def _ended(self) -> PythonEndedError:
        """Return why it no longer answers, once all its output was read. Raises UnreachableError for a lost
        connection.
        """
        until = time.monotonic() + LAST_WORDS_LIMIT
        with contextlib.suppress(OSError):
            while content := self._process.read(65536, max(0.0, until - time.monotonic())):
                self._rest = (self._rest + content)[-ANSWER_LIMIT:]
        said = _quoted(self._rest + b"\n" + self._process.stderr)
        return PythonEndedError(f"{self._node}: its Python ended without an answer{said}")

    def _line(self, limit: float) -> bytes:
        until = time.monotonic() + limit
        while b"\n" not in self._rest:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            content = self._process.read(65536, left)
            if not content:
                raise self._ended()
            self._rest += content
            if len(self._rest) > ANSWER_LIMIT:
                raise ProbeError(f"{self._node} answered more than {size(ANSWER_LIMIT)}")
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def _short(said: object) -> str:
    text = str(said)
    return text if len(text) <= ERROR_LENGTH else f"{text[:ERROR_LENGTH]}…"


def _quoted(said: bytes) -> str:
    """Return the last lines of the output, after a colon; empty if there is none."""
    lines = [line.strip()[-300:] for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    return f": {'; '.join(lines[-MOST_LINES:])}" if lines else ""


# Source code of the node's end, which its Python runs from memory.

_MAIN = "torchdeck.agent.probe.answer"
# not `ast`: Python 3.11 fails if two threads parse at the same moment (python/cpython#106905)
_IMPORT = re.compile(r"^[ ]*from (torchdeck[\w.]*) import (\([^)]*\)|.+)$", re.MULTILINE)
_COMMENTS = re.compile(
    r'(?P<doc>^(?P<indent> *)r?"""(?:(?!""")[\s\S])*"""$)'
    r'|(?P<kept>(?:[=(,] ?|^ *)r?f?"""[\s\S]*?""")'
    r"|^ *#.*$",
    re.MULTILINE,
)

LOADER = """
import importlib.machinery, json, sys, zlib
sent = json.loads(zlib.decompress(sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))))
class Sent:  # not of importlib.abc, which imports half of what starts here
    def find_spec(self, name, path=None, target=None):
        if name in sent:
            return importlib.machinery.ModuleSpec(name, self, is_package=sent[name][1])
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        exec(compile(sent[module.__name__][0], "<sent " + module.__name__ + ">", "exec"), module.__dict__)
sys.meta_path.insert(0, Sent())
from torchdeck.agent.probe.answer import main
main()
"""
ARGUMENTS = ("-I", "-c", LOADER)
"""Arguments of the node's Python; the first data on its standard input must be `payload()`."""


@cache
def payload() -> bytes:
    """Return length and compressed JSON of {module: (source, is a package)}; a pipe holds it before it is
    read.
    """
    text = zlib.compress(json.dumps(_modules()).encode("utf-8"))
    return f"{len(text)}\n".encode() + text


def _modules() -> dict[str, tuple[str, bool]]:
    """Return module → (source, is a package): the one that answers and all modules of ours that it
    imports.
    """
    package = Path(FOLDER)
    found: dict[str, tuple[str, bool]] = {"torchdeck": ("", True)}
    wanted = [_MAIN]
    while wanted:
        name = wanted.pop()
        place = package.joinpath(*name.split(".")[1:])
        is_package = (place / "__init__.py").is_file()  # a removed package may have left its folder
        path = place / "__init__.py" if is_package else place.with_suffix(".py")
        if name in found or not path.is_file():  # a name that a module defines, or another package's
            continue
        source = path.read_text(encoding="utf-8")
        found[name] = (without_comments(source), is_package)
        wanted += [name.rpartition(".")[0], *_imports(source)]
    return found


def without_comments(source: str) -> str:
    """Return a module without docstrings and lines that are comments, on the same lines: less to send.

    A docstring has its lines to itself, as this project's formatter has it; behind other long texts
    something follows, or a name or a bracket stands before them.
    """

    def blank(found: re.Match[str]) -> str:
        text = found[0]
        if found["kept"]:
            return text
        return f'{found["indent"]}""' + "\n" * text.count("\n") if found["doc"] else ""

    return _COMMENTS.sub(blank, source)


def _imports(source: str) -> Iterator[str]:
    """Yield imports of our modules, in functions, too: modules, and names that may be modules."""
    for module, names in _IMPORT.findall(source):
        yield module
        yield from (f"{module}.{name}" for name in re.findall(r"\w+", names))
