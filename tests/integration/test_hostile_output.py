"""A script that prints what acts on terminals: none of it reaches one, whatever command shows the run."""

import json
import os
import pty
import re
import select
import subprocess
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from support.agents.controlled_run import nothing_left
from support.cli.command import COMMAND, Command

HOSTILE = r"""
    import sys
    clipboard = "\x1b]52;c;cm0gLXJmIH4=\x07"
    for stream in (sys.stdout, sys.stderr):
        print("title \x1b]0;owned\x1b\\ and", clipboard, "clipboard", file=stream)
        print("screen \x1b[2J\x1b[1;1H\x1b[?1049h\x1b[6n cleared", file=stream)
        print("bidi \u202egnp.exe and \u200f, C1 \x9d52;c;aGk=\x9c, bell \x07, \x1b[8minvisible", file=stream)
        print("link \x1b]8;;http://evil/\x1b\\text\x1b]8;;\x1b\\", file=stream)
        print("colour \x1b[31mred\x1b[1;38;5;200m pink, no end [bold]markup[/]", file=stream, flush=True)
    sys.stdout.buffer.write(b"bytes \xff\x9b2J\n")
    raise RuntimeError(f"reason {clipboard}\u202e\x1b[2J of the failure [red]x[/]")
"""
OURS = re.compile(rb"\x1b\[(?:[0-9;]*m|[0-9]*[AK]|\?25[lh])")
"""Colours, and how a line is drawn again in its place."""
HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """`torchdeck` with a home whose runs leave nothing behind."""
    home = tmp_path / "home"
    with nothing_left(home):
        yield Command(home)


def at_terminal(command: Command, words: Sequence[str | Path]) -> bytes:
    """All bytes that a terminal gets of a command until it ends."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *map(str, words)],
        env={**command.environment(), "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen, limit = b"", time.monotonic() + 120
    try:
        while time.monotonic() < limit:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    seen += os.read(ours, 1 << 16)
                except OSError:  # nothing has it open any more
                    return seen
        raise AssertionError(f"the command did not end; the terminal shows {seen!r}")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def assert_harmless(seen: bytes, *, colours: bool) -> str:
    """The text without colours: only our own kinds of escape sequences, and no hidden characters."""
    text = OURS.sub(b"", seen).decode("utf-8").replace("\r", "")
    found = HIDDEN.search(text)
    assert found is None, text[max(0, found.start() - 80) : found.end() + 80]
    assert b"\x1b[8m" not in seen
    assert colours or b"\x1b[31mred" not in seen
    return text


def test_no_command_hands_a_scripts_escapes_to_the_terminal(command: Command, tmp_path: Path) -> None:
    """While it runs, afterwards, and as lines in a file; the colours that ranks may use stay."""
    hostile = tmp_path / "hostile.py"
    hostile.write_text(textwrap.dedent(HOSTILE))
    text = assert_harmless(
        at_terminal(command, ["--no-gui", "--script", hostile, "--nproc", "1"]), colours=True
    )
    for piece in (
        "title  and  clipboard",
        "screen  cleared",
        "bidi �gnp.exe",
        "link text",
        "[bold]markup[/]",
    ):
        assert piece in text
    assert "[red]x[/]" in text  # of the reason: no markup of rich either
    run = next(iter((command.home / "runs").iterdir())).name
    shown = assert_harmless(at_terminal(command, ["runs", "show", run]), colours=False)
    assert "of the failure [red]x[/]" in shown
    logs = at_terminal(command, ["runs", "logs", run])
    assert b"\x1b[31mred\x1b[1;38;5;200m pink, no end [bold]markup[/]\x1b[0m" in logs
    assert_harmless(logs, colours=True)
    for words in (["runs", "list"], ["runs", "show", run, "--json"], ["runs", "logs", run, "--json"]):
        assert_harmless(at_terminal(command, words), colours=False)
    piped = command.run("runs", "logs", run, "--stderr").stdout
    assert_harmless(piped.encode(), colours=True)
    exact = [json.loads(line) for line in command.run("runs", "logs", run, "--json").stdout.splitlines()]
    assert any("\x1b]52;c;cm0gLXJmIH4=\x07" in line["text"] for line in exact)  # for programs all is there
