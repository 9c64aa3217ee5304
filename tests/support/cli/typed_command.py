"""The command line at a terminal: a person types answers to what it asks."""

import os
import pty
import select
import subprocess
import time
from collections.abc import Sequence

from support.cli.command import COMMAND, Command


def typed(command: Command, words: Sequence[str], answers: Sequence[tuple[str, str]]) -> tuple[int, str]:
    """Run a command at a terminal and answer what it asks; its exit code and all that the terminal showed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *words],
        env=command.environment(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen, left, limit = "", list(answers), time.monotonic() + 60
    try:
        while time.monotonic() < limit:
            if left and left[0][0] in seen.rpartition("\n")[2]:
                seen += "\n"
                os.write(ours, f"{left.pop(0)[1]}\n".encode())
            if not select.select([ours], [], [], 0.2)[0]:
                continue
            try:
                seen += os.read(ours, 4096).decode()
            except OSError:  # no one has the terminal open any more
                return process.wait(20), seen
        raise AssertionError(f"the command did not end; the terminal shows {seen!r}")
    finally:
        process.kill()
        process.wait()
        os.close(ours)
