"""error.json: why a rank failed, as torch.distributed.elastic.multiprocessing.errors writes it."""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from torchdeck.contract.atomic import write_bytes


def error_content(error: BaseException, *, now: float, explained: bool = False) -> bytes:
    """Return the file's content for `error`; `now` is in unix seconds.

    torchrun reads whole seconds from `timestamp`; `time` has the digits that show which of two ranks failed
    first.
    `explained` means that the message is enough for the user: the traceback is then only kept here.
    """
    stack = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    extra = {"py_callstack": stack, "timestamp": str(int(now)), "time": now, "explained": explained}
    value = {"message": {"message": f"{type(error).__name__}: {error}", "extraInfo": extra}}
    return json.dumps(value, indent=1).encode() + b"\n"


def write_error(error: BaseException, paths: Iterable[Path], *, explained: bool = False) -> None:
    """Write `error` to each of `paths`; a failed write is reported and skipped."""
    content = error_content(error, now=time.time(), explained=explained)
    for path in paths:
        _write(path, content)


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_bytes(path, content)
    except OSError as failure:
        print(f"torchdeck: {path} cannot be written: {failure}", flush=True)


def torchrun_error_file() -> list[Path]:
    """Return where torchrun expects this rank's error, if it started it."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    return [Path(path)] if path else []


def leave(code: int) -> NoReturn:
    """Exit the process as Python would, but without finalizing the interpreter.

    torch's own threads outlive finalization. A gloo worker that releases its last tensor during it ends the
    process by std::terminate ("terminate called without an active exception"), and a finished run would be
    reported as failed. Destroying all of torch's objects also takes 0.5 s.
    """
    # joins threads as Python does, after telling those of executors to end; torch.compile leaves some
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - has no public name
    atexit._run_exitfuncs()  # noqa: SLF001 - has no public name, and exit handlers of libraries must run
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
