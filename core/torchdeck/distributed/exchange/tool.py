"""Process that exports and converts: `python -m torchdeck.distributed.exchange.tool`.

Answers a request as `torchdeck.distributed.answering_process` does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.distributed.answering_process import Say, answer_one_request

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def main() -> int:
    """Answer one request; return the process's exit code."""
    return answer_one_request(_answer)


def _answer(request: Mapping[str, Any], say: Say) -> dict[str, Any]:
    from torchdeck.distributed.exchange import exchanging

    def progress(*said: Any) -> None:
        say({"progress": said})

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


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # the reading thread is not waited for
