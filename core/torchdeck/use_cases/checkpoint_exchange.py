"""Runs the process that exports and converts checkpoints, follows its progress, and reads its answer."""

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
from torchdeck.contract.refusal import Refusal

SILENCE = 300.0
"""Seconds without output until it counts as hung: a disk may be slow, and tensors large."""
_LAST_WORDS = 10.0
"""Seconds that the process gets to remove partial output."""
_ENTRY = ("-m", "torchdeck.distributed.exchange.tool")


class ExchangeFailedError(Refusal):
    """Nothing was written; the message has the reason."""

    page = "checkpoints#inspect-verify-convert"


def exchange_in_process(
    request: Mapping[str, Any],
    interpreter: str,
    progress: Callable[[str, int, int], None],
    silence: float = SILENCE,
) -> dict[str, Any]:
    """Return the answer of `torchdeck.distributed.exchange.tool` to `request`.

    There is no limit on the total time, only on the time without output.

    Args:
        request: the source and the target.
        interpreter: one that has torch.
        progress: called with the current work, the amount done, and the total (0: unknown); an exception from
            it ends
            the process and is raised here.
        silence: seconds without output.

    Raises:
        ExchangeFailedError: it reports failure, ends without an answer, or hangs.
    """
    with tempfile.TemporaryFile() as said, _started(interpreter, said) as process:
        process.send(json.dumps(request).encode() + b"\n")
        for line in _lines(process, silence):
            answer = _answer(line)
            if "done" in answer:
                done: dict[str, Any] = answer["done"]
                return done
            if "error" in answer:
                raise ExchangeFailedError(answer["error"])
            what, finished, total = answer["progress"]
            progress(what, finished, total)
        code = process.exit_code(_LAST_WORDS)
        said.seek(0)
        last = (said.read().decode(errors="replace").strip().splitlines() or ["it printed nothing"])[-1]
        raise ExchangeFailedError(f"{interpreter} ended with exit code {code}: {last[:300]}")


@contextmanager
def _started(interpreter: str, said: IO[bytes]) -> Iterator[ChildProcess]:
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
            [interpreter, *_ENTRY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=environment,
        )
    except OSError as error:
        raise ExchangeFailedError(f"{interpreter} could not be started: {error.strerror}") from error
    try:
        yield process
    finally:
        process.end(grace=_LAST_WORDS)  # by the end of its input


def _lines(process: ChildProcess, silence: float) -> Iterator[bytes]:
    try:
        yield from process.lines(silence)
    except TimeoutError:
        raise ExchangeFailedError(f"nothing was heard for {silence:g} s: is the disk gone?") from None


def _answer(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
        if isinstance(answer, dict) and answer.keys() & {"done", "error", "progress"}:
            return answer
    except ValueError:
        pass
    raise ExchangeFailedError(f"the process answered {line[:80]!r}, which is no answer")


def export_request(source: Path, target: Path) -> dict[str, Any]:
    """Return a request to export a checkpoint's weights as saved, as safetensors and JSON in a new folder.

    Args:
        source: the checkpoint's folder.
        target: the folder to create.
    """
    return {
        "source": str(source.absolute()),
        "target": str(target.absolute()),
        "to": "export",
        "force": False,
        "max_file": 5_000_000_000,
        "dtype": None,
        "optimizer": False,
        "ema": False,
        "trust": False,
        "ranks": None,
    }
