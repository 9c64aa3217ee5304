"""The command at a terminal of its own, at which someone types answers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import termios
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from support.cli.command import COMMAND, Command


class Typing:
    """A command whose questions are answered, from `with` to its end.

    Args:
        command: with which home.
        answers: how a question begins → what is typed then.
        arguments: of the command.

    Attributes:
        seen: all that it has written to the terminal and to standard output.
        answered: the questions, as often as they were asked.
    """

    def __init__(self, command: Command, answers: Mapping[str, str], *arguments: str | Path) -> None:
        self.seen = ""
        self.answered: list[str] = []
        self._command, self._answers, self._arguments = command, answers, arguments
        self._done = 0

    def __enter__(self) -> Self:
        self._master, slave = os.openpty()
        self._process = subprocess.Popen(
            [*COMMAND, *map(str, self._arguments)],
            env=self._command.environment(),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - questions go to /dev/tty
        )
        os.close(slave)
        self._thread = threading.Thread(target=self._read, name="who types", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(10)
        self._thread.join(10)
        os.close(self._master)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, seconds: float) -> int:
        """Its exit code, once it has ended by itself."""
        return self._process.wait(seconds)

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone with the command
            while data := os.read(self._master, 65536):
                self.seen += data.decode("utf-8", "replace")
                self._answer()

    def _answer(self) -> None:
        for question, answer in self._answers.items():
            at = self.seen.find(question, self._done)
            if at >= 0 and self.seen.endswith(": "):
                self._done = len(self.seen)
                self.answered.append(question)
                os.write(self._master, f"{answer}\n".encode())
