"""The end of a process that imported torch, without taking the interpreter apart. Standard library alone."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End the process as Python would, but without finalizing the interpreter.

    torch's own threads outlive finalization: a gloo worker that releases its last tensor meanwhile ends the
    process by std::terminate ("terminate called without an active exception"), and a run that had finished
    would have failed. It also takes 0.5 s to destroy all that torch has made.
    """
    # joins threads as Python does, after telling those of executors to end; torch.compile leaves some
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - has no public name
    atexit._run_exitfuncs()  # noqa: SLF001 - has no public name, and exit handlers of libraries must run
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
