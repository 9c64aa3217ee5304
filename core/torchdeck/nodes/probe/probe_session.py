"""Questions to a node's Python over one channel, each answered by a JSON line, each with a time limit."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from torchdeck.contract.bounded_json import JsonError, parse_json_object
from torchdeck.contract.journal import LATEST
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.probe.sent_code import payload
from torchdeck.nodes.ssh.errors import UnreachableError
from torchdeck.quantities import size

ANSWER_LIMIT = 4 * 2**20
"""Bytes of an answer; a node says a few thousand."""
ERROR_LENGTH = 2000
"""Characters of an error that a node reports."""
PINGS = 4
"""Questions for the time that a clock is compared by; the quickest counts."""
LAST_WORDS_LIMIT = 3.0
"""Seconds for what a Python that takes no question any more has still said."""
MOST_LINES = 3
"""Last lines of its standard error that are quoted."""
_VERSION = 1


class ProbeError(Refusal):
    """A node did not answer, or not as it should; the message says what it said."""

    page = "trouble/failed#a-node-is-not-reachable"


class PythonEndedError(ProbeError):
    """What was started as a node's Python has ended, or never was one: its interpreter, not the way to it."""


@contextlib.contextmanager
def understood(node: str) -> Iterator[None]:
    """Around what takes an answer of `node` apart: if it is not as it should be, that is a ProbeError."""
    try:
        yield
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        what = _short(f"{type(error).__name__}: {error}")
        raise ProbeError(f"{node} said something impossible: {what}") from error


class RemoteProcess(Protocol):
    """A process on a node, as far as talking to it goes."""

    @property
    def stderr(self) -> bytes:
        """The last of its standard error, as far as `read` met it."""

    def write(self, data: bytes) -> None:
        """To its standard input. Raises OSError or SshError."""

    def read(self, size: int, limit: float) -> bytes:
        """At most `size` bytes of its output, empty at its end. Raises TimeoutError, OSError or SshError."""

    def close(self) -> None:
        """End it."""


class ClockOffset(NamedTuple):
    """How a node's clock differs from ours."""

    seconds: float
    """Its time minus ours."""
    error: float
    """By how much that may be wrong: half of the way there and back."""


class ProbeSession:
    """Asks the code of `sent_code` on a node. For one thread at a time.

    Attributes:
        spent: seconds that were needed to come to it, out of the limit for all; 0 for one that was kept.
    """

    def __init__(self, process: RemoteProcess, node: str, spent: float = 0.0) -> None:
        """Send the code to a Python that was started with `sent_code.ARGUMENTS`. Raises ProbeError."""
        self.spent = spent
        self._process = process
        self._node = node
        self._rest = b""
        self._write(payload())

    def ask(self, what: ProbeRequest, limit: float, /, **fields: Any) -> Mapping[str, Any]:
        """The answer to one question.

        Args:
            what: is asked.
            limit: seconds to wait for the answer.
            fields: of the question; see `torchdeck.agent.probe.answer`.

        Raises:
            ProbeError: no answer in time, or none that can be read.
        """
        self.send(what, **fields)
        return self.receive(what, limit)

    def send(self, what: ProbeRequest, /, **fields: Any) -> None:
        """Ask without waiting, for who asks again before the last answer is here. Raises ProbeError."""
        self._write(json.dumps({"ask": what, **fields}).encode("utf-8") + b"\n")

    def receive(self, what: ProbeRequest, limit: float) -> Mapping[str, Any]:
        """The answer to the first question that was sent and is not answered yet; as `ask`."""
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
        """The node's clock against ours, as NTP compares them (RFC 5905, section 8).

        Args:
            limit: seconds for all questions together.

        Raises:
            ProbeError: it was not said in time.
        """
        best: ClockOffset | None = None
        until = time.monotonic() + limit
        for _ in range(PINGS):
            left = max(0.0, until - time.monotonic())
            before = time.time()
            there = self.ask(ProbeRequest.TIME, left).get("time")
            after = time.time()
            if not isinstance(there, (int, float)) or not 0 <= there < LATEST:
                raise ProbeError(f"{self._node} does not say what time it is")
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
        """Why it answers no more, once all it said was read. Raises UnreachableError of a lost connection."""
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
    """The last lines of what was said, behind a colon; nothing where nothing was."""
    lines = [line.strip()[-300:] for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    return f": {'; '.join(lines[-MOST_LINES:])}" if lines else ""
