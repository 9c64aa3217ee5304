"""Starts the process that traces a model, and reads its answer; a recipe's code runs there and not here."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torchdeck.agent.processes.child_process import ChildProcess
from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.contract.layout import Home
from torchdeck.launching.runtime_bundle import BundleError, ship

_READ_SIZE = 1 << 16
_TAIL = 4096
"""Bytes kept of its standard error."""
_LAST_WORDS = 5.0
"""Seconds it may take to exit after it closed its output."""
_GLANCE = 0.25
"""Seconds of silence between checks of whether it still runs (a child may hold its output open), and whether
its answer is still needed.
"""
_ENTRY = ("-m", "torchdeck.tracing.entry")
_SAFE_ENTRY = (
    "-c",
    (
        "import sys; sys.path[:] = filter(None, sys.path); import runpy; "
        "runpy.run_module('torchdeck.tracing.entry', run_name='__main__')"
    ),
)
"""Imports nothing from the working directory, which may contain anything: Python 3.10 does not have -P."""
_ONLY_RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}


class TracingFailedError(Exception):
    """The process gave no profile; the message gives the reason. `certain`: every rank would fail the same
    way.
    """

    def __init__(self, message: str, *, certain: bool = False) -> None:
        super().__init__(message)
        self.certain = certain


def trace_in_process(
    config: RunConfig,
    home: Path,
    interpreter: str,
    request: Mapping[str, Any],
    on_progress: Callable[[str], None] | None,
    timeout: float,
) -> dict[str, Any]:
    """Return the profile as JSON, with which `torchdeck.tracing.entry` answers `request`.

    Args:
        config: where and in which environment its ranks start; the process starts the same way, without GPUs.
            A built-in recipe is traced without asking: neither folder nor environment can bring in other code
            then.
        home: TORCHDECK_HOME, which contains the code for nodes.
        interpreter: Python of the ranks.
        request: a `TraceRequest`.
        on_progress: called with the current work, and repeatedly while there is no news; an exception from it
            ends the process.
        timeout: seconds until it is killed.

    Raises:
        TracingFailedError: it reports failure, exits without an answer, or takes too long.
        BundleError: its code cannot be installed.
    """
    with _shipped(home) as shipped:
        process = _start(config, interpreter, _environment(config, shipped))
        try:
            text = json.dumps({**request, "limit": timeout}, default=str)
            return _Conversation(process, on_progress, timeout).run(text.encode())
        finally:
            process.end()


@contextmanager
def _shipped(home: Path) -> Iterator[Path]:
    """Yield the code for nodes; in a temporary folder if `home` cannot be written."""
    with ExitStack() as stack:
        try:
            folder = ship(home)
        except BundleError as error:
            try:
                elsewhere = stack.enter_context(TemporaryDirectory(prefix="torchdeck-"))
            except OSError:
                raise error from None
            folder = ship(Path(elsewhere))
        yield folder


def _start(config: RunConfig, interpreter: str, environment: Mapping[str, str]) -> ChildProcess:
    built_in = config.run.recipe in BUILTIN_RECIPES
    try:
        return ChildProcess(
            [interpreter, *(_SAFE_ENTRY if built_in else _ENTRY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # an empty entry of the user's PYTHONPATH or LD_LIBRARY_PATH is the working directory
            cwd="/" if built_in else config.run.working_dir,
            env=environment,
            umask=0o077,
        )
    except OSError as error:
        raise TracingFailedError(f"{interpreter} could not be started to trace the model: {error}") from error


def _environment(config: RunConfig, shipped: Path) -> dict[str, str]:
    """Return the environment of a single rank, as from `plan.rank_environment` and torchrun, but with no
    visible GPU.
    """
    own = {} if config.run.recipe in BUILTIN_RECIPES else config.run.env
    users_path = own.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    return {
        **Home.of_bundle(shipped).compile_cache,
        **os.environ,
        **own,
        **_ONLY_RANK,
        "PYTHONPATH": f"{shipped}:{users_path}" if users_path else str(shipped),
        "PYTHONUNBUFFERED": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }


class _Conversation:
    """One request and its responses."""

    def __init__(
        self, process: ChildProcess, on_progress: Callable[[str], None] | None, timeout: float
    ) -> None:
        self._process = process
        self._on_progress = on_progress
        self._timeout = timeout
        self._doing = "starting"
        self._pending = b""
        self._said = b""

    def run(self, request: bytes) -> dict[str, Any]:
        """Send `request`, and wait for the profile or the error.

        Its standard input stays open: the process exits when that is closed, including when this process
        ends.
        """
        self._process.send(request + b"\n")
        limit = time.monotonic() + self._timeout
        with selectors.DefaultSelector() as waiting:
            for pipe in (self._process.stdout, self._process.stderr):
                waiting.register(pipe, selectors.EVENT_READ)  # type: ignore[arg-type]  # pipes were asked for
            while waiting.get_map():
                ready = waiting.select(max(0.0, min(_GLANCE, limit - time.monotonic())))
                if not ready:
                    if self._process.exit_code() is not None:
                        break
                    self._tell()
                if time.monotonic() >= limit:
                    raise TracingFailedError(
                        f"tracing the model took longer than {self._timeout:g} s while {self._doing}: look "
                        "for what the recipe waits for there"
                    )
                for key, _ in ready:
                    data = os.read(key.fd, _READ_SIZE)
                    if not data:
                        waiting.unregister(key.fileobj)
                    answer = self._take(key.fileobj, data)
                    if answer is not None:
                        return answer
        raise TracingFailedError(self._silence())

    def _take(self, pipe: Any, data: bytes) -> dict[str, Any] | None:
        if pipe is self._process.stderr:
            self._said = (self._said + data)[-_TAIL:]
            return None
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            profile = self._answer(line)
            if profile is not None:
                return profile
        return None

    def _answer(self, line: bytes) -> dict[str, Any] | None:
        try:
            answer = json.loads(line)
            (kind, content), *_ = answer.items()
        except (ValueError, AttributeError):
            raise TracingFailedError(f"tracing answered {line[:80]!r}, which is no answer") from None
        if kind == "error":
            raise TracingFailedError(str(content), certain=answer.get("certain") is True)
        if kind == "progress":
            self._doing = str(content)
            self._tell()
            return None
        return content if isinstance(content, dict) else None

    def _tell(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self._doing)

    def _silence(self) -> str:
        """Return why there was no answer."""
        code = self._process.exit_code(_LAST_WORDS)
        if code is None:
            return f"the process that traces the model closed its output while {self._doing}, and continued"
        if code == -signal.SIGKILL:
            return (
                f"the process that traces the model was killed while {self._doing}, as the system does when "
                "memory runs out"
            )
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        last = (self._said.decode(errors="replace").strip().splitlines() or ["it printed nothing"])[-1]
        return f"the process that traces the model ended {how} while {self._doing}: {last[:300]}"
