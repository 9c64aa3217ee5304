"""Process that exports and converts: `python -m torchdeck.distributed.exchange.tool`.

Reads one request from standard input, JSON on one line, and exits when that is closed, as its client is gone
then. Answers on standard output, one JSON object per line: {"progress": [what, done, total]} any number of
times, then {"done": …} or {"error": sentence}.
"""

from __future__ import annotations

import _thread
import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def main() -> int:
    """Answer one request; return the process's exit code."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # library output must not mix with the answers

    def say(answer: Mapping[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        say({"progress": ["starting torch", 0, 0]})
        said: dict[str, Any] = {"done": _answer(request, lambda *progress: say({"progress": progress}))}
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - becomes the answer
        said = {"error": _sentence(error)}
    say(said)
    return 0 if "done" in said else 1


def _answer(request: Mapping[str, Any], progress: Any) -> dict[str, Any]:
    from torchdeck.distributed.exchange import exchanging

    source, target = Path(request["source"]), Path(request["target"])
    force = bool(request["force"])
    if request["to"] == "sharded":
        return exchanging.to_sharded(
            source,
            target,
            parts=request["ranks"],
            trusted=bool(request["trust"]),
            force=force,
            progress=progress,
        )
    return exchanging.to_single(
        source,
        target,
        export=request["to"] == "export",
        optimizer=bool(request["optimizer"]),
        ema=bool(request["ema"]),
        dtype=request["dtype"] and DTYPES[request["dtype"]],
        max_file=int(request["max_file"]),
        trusted=bool(request["trust"]),
        force=force,
        progress=progress,
    )


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


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # the reading thread is not waited for
