"""A process that answers one request, for programs that do not import torch.

Reads the request from standard input, JSON on one line, and exits when that is closed, as its client is gone
then. Answers on standard output, one JSON object per line: {"progress": [what, done, total]} and further ones
of the task, any number of times, then {"done": …} or {"error": sentence}.
"""

from __future__ import annotations

import _thread
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

Say = Callable[[Mapping[str, Any]], None]
"""Writes one answer; may raise KeyboardInterrupt when the client is gone."""


def answer_one_request(task: Callable[[Mapping[str, Any], Say], dict[str, Any]]) -> int:
    """Answer one request by `task`, whose result is sent as `done`; return the process's exit code."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # library output must not mix with the answers

    def say(answer: Mapping[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        say({"progress": ["starting torch", 0, 0]})
        said: dict[str, Any] = {"done": task(request, say)}
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - becomes the answer
        said = {"error": _sentence(error)}
    say(said)
    return 0 if "done" in said else 1


def _sentence(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return (
            f"there is no torch in {sys.executable}: install it there (pip install 'torchdeck[train]'), "
            "or name an interpreter that has it with --python"
        )
    if type(error).__module__.startswith("torchdeck."):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _end_with_input() -> None:
    sys.stdin.read()
    _thread.interrupt_main()  # so that partial output is removed
