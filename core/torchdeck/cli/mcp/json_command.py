"""A torchdeck command with `--json` in a process of its own, and what it answers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from torchdeck.cli.output import SUCCEEDED, json_text

ERRORS_SHOWN = 4_000
"""Characters of a command's errors that are passed on, the last ones."""


class CommandFailed(Exception):  # noqa: N818 - says what happened
    """A command that ended with an error; its text is for the one who asked."""


def answers(words: Sequence[str], seconds: float, codes: Sequence[int] = (SUCCEEDED,)) -> list[Any]:
    """Return the JSON values that a command prints, one by one.

    It has no terminal, so it asks no question: what needs one is refused with what to do.

    Args:
        words: arguments of `torchdeck`.
        seconds: time limit; the command is then ended.
        codes: exit codes of a command that has answered.

    Raises:
        CommandFailed: it ended with an error, took too long, or printed something else.
    """
    argv = [sys.executable, "-P", "-m", "torchdeck.cli.main", *words]
    command = f"torchdeck {' '.join(words)}"
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"`{command}` took longer than {seconds:.0f} s and was ended") from None
    errors = done.stderr.decode("utf-8", "replace").strip()[-ERRORS_SHOWN:]
    try:
        values = _values(done.stdout.decode("utf-8", "replace"))
    except ValueError:
        raise CommandFailed(f"`{command}` printed no JSON. {errors}") from None
    if done.returncode not in codes:
        reasons = [json_text(value) for value in values]
        text = "\n".join([errors, *reasons]).strip()
        raise CommandFailed(text or f"`{command}` ended with exit code {done.returncode}")
    return values


def _values(text: str) -> list[Any]:
    """Return the JSON values in a text, which white space separates. Raises ValueError."""
    decoder, values, at = json.JSONDecoder(), [], 0
    text = text.strip()
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        values.append(value)
        while at < len(text) and text[at].isspace():
            at += 1
    return values
