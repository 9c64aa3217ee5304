"""Serves the queue of TORCHDECK_HOME until a signal comes; also a program: what the window starts."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from torchdeck.contract.refusal import Refusal
from torchdeck.runs.home import torchdeck_home
from torchdeck.use_cases.queue.server import Report, serve
from torchdeck.use_cases.ui import QuietUi

REFUSED = 3
"""Exit code if the queue cannot be served."""


def serve_until_signal(home: Path, report: Report) -> None:
    """Start entries of the queue until SIGTERM or SIGINT; from the main thread.

    Args:
        home: TORCHDECK_HOME.
        report: called with each thing that the server does, as a sentence.

    Raises:
        QueueError: another server has this home, or the queue cannot be read or written.
    """
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopped.set())
    serve(home, QuietUi(note=report), report, stopped)


def main() -> int:
    """Serve, and print what is done; return the exit code."""

    def report(text: str) -> None:
        print(text, flush=True)

    try:
        serve_until_signal(torchdeck_home(), report)
    except Refusal as error:
        print(error, file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
