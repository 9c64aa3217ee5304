"""Use case: a terminal window that runs a command."""

from __future__ import annotations

import shlex
from pathlib import Path

from torchdeck.contract.refusal import Refusal
from torchdeck.use_cases.opening.programs import Programs

_BEFORE_COMMAND = {
    "alacritty": ("-e",),
    "foot": (),
    "ghostty": ("-e",),
    "gnome-terminal": ("--",),
    "kgx": ("--",),
    "kitty": (),
    "konsole": ("-e",),
    "mate-terminal": ("-x",),
    "ptyxis": ("--",),
    "rxvt": ("-e",),
    "st": ("-e",),
    "terminator": ("-x",),
    "urxvt": ("-e",),
    "wezterm": ("start", "--"),
    "x-terminal-emulator": ("-e",),
    "xfce4-terminal": ("-x",),
    "xterm": ("-e",),
}
"""Words that each terminal program takes before the words of a command."""
_SEPARATORS = ("-e", "-x", "--")
_USUAL = (
    *("x-terminal-emulator", "gnome-terminal", "kgx", "ptyxis", "konsole", "xfce4-terminal", "mate-terminal"),
    *("kitty", "alacritty", "foot", "ghostty", "wezterm", "terminator", "urxvt", "rxvt", "st", "xterm"),
)
"""Programs that are tried in this order."""


class NoTerminalError(Refusal):
    """This machine has no terminal program."""

    page = "window#your-editor-and-terminal"


def in_terminal(argv: tuple[str, ...], programs: Programs) -> tuple[str, ...]:
    """Return the words that open a terminal window with a command in it: that of $TERMINAL, else a usual one.

    Raises:
        NoTerminalError: there is none, or $TERMINAL is no command.
    """
    written = programs.environ.get("TERMINAL", "")
    try:
        words = shlex.split(written)
    except ValueError as error:
        raise NoTerminalError(f"TERMINAL is no command: {written}", error) from error
    if words:
        if programs.find(words[0]) is None:
            raise NoTerminalError(f"TERMINAL names {words[0]}, which is not installed")
        own = () if words[-1] in _SEPARATORS else _BEFORE_COMMAND.get(Path(words[0]).name, ("-e",))
        return (*words, *own, *argv)
    found = next((name for name in _USUAL if programs.find(name) is not None), None)
    if found is None:
        raise NoTerminalError(
            "no terminal program was found",
            "none of those that Torchdeck knows is on PATH",
            "install one, such as xterm, or set TERMINAL to the command of yours",
        )
    return (found, *_BEFORE_COMMAND[found], *argv)
