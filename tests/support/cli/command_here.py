"""The command line in this process: for commands that start nothing, and whose own start takes longest."""

import io
import os
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from support.cli.command import Command
from torchdeck.cli.main import main


@dataclass(frozen=True)
class CommandHere(Command):
    """`torchdeck` with a home of its own; `run` and `json` call it, `start` starts a process as ever."""

    def run(
        self,
        *arguments: str | Path,
        timeout: float = 120,  # noqa: ARG002 - as where a process is started
    ) -> "subprocess.CompletedProcess[str]":
        """Run to the end; never raises for an exit code."""
        words = [*map(str, arguments)]
        out, err = io.StringIO(), io.StringIO()
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            patch.dict(os.environ, self.environment()),
            patch("sys.stdin", io.StringIO()),
        ):
            try:
                code = main(words)
            except SystemExit as error:  # argparse's
                code = error.code if isinstance(error.code, int) else 1
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
