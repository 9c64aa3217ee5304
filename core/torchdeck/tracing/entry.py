"""Process that traces a model: `python -m torchdeck.tracing.entry`.

Reads one request from standard input, JSON on one line. It exits with all its children when standard input is
closed, as the caller is gone then. Answers on its original standard output, one JSON object per line:
{"progress": words} any number of times, then {"profile": …} or {"error": sentence, "certain": each rank would
fail so}. Output of the recipe itself goes to standard error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from typing import IO, Any

_GRACE = 5
"""Seconds after the limit at which the process ends itself if it has not been killed."""


def main() -> int:
    """Answer one request; return the process's exit code."""
    answers, requests = _take_stdout(), _take_stdin()
    try:
        request = json.loads(_line(requests))
        threading.Thread(target=_end_with, args=(requests,), daemon=True).start()
        profile = _answer(request, lambda words: _say(answers, {"progress": words}))
    except BaseException as error:  # noqa: BLE001 - whatever a recipe raises, sys.exit too, becomes the answer
        traceback.print_exception(type(error), error, error.__traceback__)
        _say(answers, {"error": _sentence(error), "certain": getattr(error, "certain", False)})
        return 1
    _say(answers, {"profile": profile})
    return 0


def _answer(value: Any, progress: Any) -> dict[str, Any]:
    from torchdeck.tracing.request import TraceRequest

    request = TraceRequest.from_json(value)
    if request.limit is not None:
        signal.alarm(int(request.limit) + _GRACE)  # its default action ends the process
    progress("starting torch")
    from torchdeck.tracing.tracer import trace_recipe

    return trace_recipe(request, progress).to_json()


def _sentence(error: BaseException) -> str:
    """Return the message for `error`; our own errors are sentences already."""
    if type(error).__module__.startswith("torchdeck."):
        return str(error)
    return f"tracing failed by {type(error).__name__}: {error}"


def _take_stdout() -> IO[str]:
    """Reserve standard output for answers: prints of the recipe, and of any library, go to standard error."""
    sys.stdout.flush()
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return own


def _take_stdin() -> int:
    """Reserve a descriptor of standard input for requests; the recipe sees end of file."""
    own = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return own


def _line(requests: int) -> bytes:
    read = b""
    while not read.endswith(b"\n") and (more := os.read(requests, 1 << 16)):
        read += more
    return read


def _end_with(requests: int) -> None:
    """End this process and its children once `requests` is closed, unless the recipe closed it itself."""
    with suppress(OSError):
        while os.read(requests, 1):
            pass
        os.killpg(os.getpgid(0), signal.SIGKILL)


def _say(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # does not wait for threads of a recipe's libraries
