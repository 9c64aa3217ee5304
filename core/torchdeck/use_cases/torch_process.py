"""Client of a process that has torch and answers one request (`torchdeck.distributed.answering_process`)."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from torchdeck.agent.processes.child_process import ChildProcess
from torchdeck.contract.package import FOLDER

SILENCE = 300.0
"""Seconds without output until it counts as hung: a disk may be slow, and tensors large."""
_LAST_WORDS = 10.0
"""Seconds that the process gets to remove partial output."""
_KINDS = {"done", "error", "progress", "text"}


class TorchProcessError(Exception):
    """It answered nothing; the message has the reason."""


def ask_torch(
    module: str,
    request: Mapping[str, Any],
    interpreter: str,
    *,
    progress: Callable[[str, int, int], None],
    text: Callable[[str], None] = lambda _: None,
    silence: float = SILENCE,
) -> dict[str, Any]:
    """Return the result of `python -m MODULE` for `request`.

    There is no limit on the total time, only on the time without output.

    Args:
        module: a module that answers by `answer_one_request`.
        request: JSON values.
        interpreter: one that has torch.
        progress: called with the current work, the amount done, and the total (0: unknown).
        text: called with each piece of a text that it writes. An exception from either ends the process and
            is raised here.
        silence: seconds without output.

    Raises:
        TorchProcessError: it reports failure, ends without an answer, or hangs.
    """
    with tempfile.TemporaryFile() as said, _started(module, interpreter, said) as process:
        process.send(json.dumps(request).encode() + b"\n")
        for line in _lines(process, silence):
            answer = _answer(line)
            if "done" in answer:
                done: dict[str, Any] = answer["done"]
                return done
            if "error" in answer:
                raise TorchProcessError(answer["error"])
            if "text" in answer:
                text(answer["text"])
            else:
                what, finished, total = answer["progress"]
                progress(what, finished, total)
        code = process.exit_code(_LAST_WORDS)
        said.seek(0)
        last = (said.read().decode(errors="replace").strip().splitlines() or ["it printed nothing"])[-1]
        raise TorchProcessError(f"{interpreter} ended with exit code {code}: {last[:300]}")


@contextmanager
def _started(module: str, interpreter: str, said: IO[bytes]) -> Iterator[ChildProcess]:
    """Yield the process; at the end it is asked to exit, and killed if it does not."""
    package = str(Path(FOLDER).parent)
    users_path = os.environ.get("PYTHONPATH", "")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{package}:{users_path}" if users_path else package,
        "PYTHONSAFEPATH": "1",  # modules in its working directory are not imported
        "CUDA_VISIBLE_DEVICES": "",
    }
    try:
        process = ChildProcess(
            [interpreter, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=environment,
        )
    except OSError as error:
        raise TorchProcessError(f"{interpreter} could not be started: {error.strerror}") from error
    try:
        yield process
    finally:
        process.end(grace=_LAST_WORDS)  # by the end of its input


def _lines(process: ChildProcess, silence: float) -> Iterator[bytes]:
    try:
        yield from process.lines(silence)
    except TimeoutError:
        raise TorchProcessError(f"no output for {silence:g} s: is the disk still there?") from None


def _answer(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
        if isinstance(answer, dict) and answer.keys() & _KINDS:
            return answer
    except ValueError:
        pass
    raise TorchProcessError(f"the process answered {line[:80]!r}, which is no answer")
